"""The node pools and operations of one fake GKE cluster, by its own clock."""

import threading
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

Json = dict[str, Any]


class RefusedError(Exception):
    """An answer that is an error, as google.rpc.Status has it."""

    def __init__(self, code: int, status: str, message: str, reason: str = "") -> None:
        super().__init__(message)
        self.code, self.status, self.message, self.reason = code, status, message, reason

    def body(self) -> Json:
        error: Json = {"code": self.code, "message": self.message, "status": self.status}
        if self.reason:
            kind = "type.googleapis.com/google.rpc.ErrorInfo"
            error["details"] = [{"@type": kind, "reason": self.reason, "domain": "container.googleapis.com"}]
        return {"error": error}


@dataclass
class Pool:
    body: Json
    made_s: float
    done_s: float
    status: str = "PROVISIONING"
    fails: str = ""
    gone_s: float = 0.0


def is_flex(pool: Json) -> bool:
    """Whether a pool is of flex-start, by its body."""
    return bool((pool.get("config") or {}).get("flexStart"))


@dataclass
class Gke:
    """Set its fields to make it behave; `capacity` is by (spot or not, zone), any number where not named.

    Pools of flex-start begin without machines: `fill` asks for them all, as GKE's autoscaler does, and gets
    them while `flex_slices` are left. `lag_s`: lists show a pool only so long after it was made.
    `concurrent` operations may run at a time. Of `forbidden` are "create" and "delete", which the account
    then has no right to. Lists lack the pools in
    `hidden`, and say the status in `slandered` of those there.
    """

    create_s: float = 0.2
    delete_s: float = 0.1
    lag_s: float = 0.0
    concurrent: int = 5
    capacity: dict[tuple[bool, str], int] = field(default_factory=dict)
    flex_slices: int = 10**6
    filled: set[str] = field(default_factory=set)
    quota: int | None = None
    forbidden: set[str] = field(default_factory=set)
    hidden: set[str] = field(default_factory=set)
    slandered: dict[str, str] = field(default_factory=dict)
    pools: dict[str, Pool] = field(default_factory=dict)
    operations: dict[str, Json] = field(default_factory=dict)
    lock: threading.RLock = field(default_factory=threading.RLock)

    def list(self) -> Json:
        with self.lock:
            shown = [pool for pool in self.list_truly()["nodePools"] if pool["name"] not in self.hidden]
            said = [{**one, "status": self.slandered.get(one["name"], one["status"])} for one in shown]
            return {"nodePools": said}

    def list_truly(self) -> Json:
        """The pools that there are, also where lists say otherwise."""
        with self.lock:
            self._advance()
            now_s = time.monotonic()
            shown = [self._shown(pool) for pool in self.pools.values() if now_s >= pool.made_s + self.lag_s]
            return {"nodePools": shown}

    def get(self, name: str) -> Json:
        with self.lock:
            self._advance()
            return self._shown(self._find(name))

    def create(self, body: Json) -> Json:
        with self.lock:
            self._advance()
            pool = body.get("nodePool") or {}
            name = pool.get("name", "")
            if not name or len(name) > 40:
                raise RefusedError(400, "INVALID_ARGUMENT", "Node pool name must be at most 40 characters.")
            self._check_right("create")
            if name in self.pools:
                raise RefusedError(409, "ALREADY_EXISTS", f"Already exists: node pool {name}.")
            self._check_concurrency()
            if self.quota is not None and len(self.pools) >= self.quota:
                message = "Insufficient regional quota to satisfy request: resource TPUV6EPerProject."
                raise RefusedError(403, "PERMISSION_DENIED", message, "GCE_QUOTA_EXCEEDED")
            self._check_placement(pool)
            self._check_flex_start(pool)
            now_s = time.monotonic()
            zone = (pool.get("locations") or [""])[0]
            place = bool(pool.get("config", {}).get("spot")), zone
            made = Pool(pool, now_s, now_s + self.create_s)
            used = sum(self._place(one) == place and not one.fails for one in self.pools.values())
            if not is_flex(pool) and used >= self.capacity.get(place, 10**6):
                made.fails = f"Google Compute Engine: the zone '{zone}' does not have enough resources"
            self.pools[name] = made
            return self._operation("CREATE_NODE_POOL", name)

    def delete(self, name: str) -> Json:
        with self.lock:
            self._advance()
            self._check_right("delete")
            pool = self._find(name)
            if pool.status == "PROVISIONING":
                message = f"Cluster is running incompatible operation operation-{name}."
                raise RefusedError(400, "FAILED_PRECONDITION", message, "CLUSTER_ALREADY_HAS_OPERATION")
            self._check_concurrency()
            pool.status, pool.gone_s = "STOPPING", time.monotonic() + self.delete_s
            return self._operation("DELETE_NODE_POOL", name)

    def fill(self, name: str) -> None:
        """A resize request for all machines of a pool of flex-start, which waits for room without an end."""
        with self.lock:
            if name not in self.filled and len(self.filled) < self.flex_slices:
                self.filled.add(name)

    def end_run(self, name: str) -> None:
        """The machines of a pool of flex-start have run for as long as they may."""
        with self.lock:
            self.filled.discard(name)

    def operation(self, name: str) -> Json:
        with self.lock:
            self._advance()
            if name not in self.operations:
                raise RefusedError(404, "NOT_FOUND", f"Not found: operation {name}.")
            return dict(self.operations[name])

    def _check_right(self, right: str) -> None:
        if right in self.forbidden:
            message = 'Required "container.clusters.update" permission(s) for "projects/p/locations/l".'
            raise RefusedError(403, "PERMISSION_DENIED", message)

    def _check_concurrency(self) -> None:
        if sum(one["status"] != "DONE" for one in self.operations.values()) >= self.concurrent:
            message = (
                f'Too many operations: cluster "c" hits the concurrent operations quota {self.concurrent}.'
            )
            raise RefusedError(429, "RESOURCE_EXHAUSTED", message)

    def _check_placement(self, pool: Json) -> None:
        placement = pool.get("placementPolicy") or {}
        if placement.get("tpuTopology") and pool.get("initialNodeCount") == 1:
            message = "TPU topology can't be specified with single-host TPU slice pool."
            raise RefusedError(400, "INVALID_ARGUMENT", message)

    def _check_flex_start(self, pool: Json) -> None:
        """What GKE asks of a pool of flex-start.

        Of container v1, GKE's "About flex-start", its autoscaler, and the Cluster Toolkit's gke-node-pool.
        """
        config, scaling = pool.get("config") or {}, pool.get("autoscaling") or {}
        affinity = (config.get("reservationAffinity") or {}).get("consumeReservationType", "ANY_RESERVATION")
        managed = pool.get("management") or {"autoRepair": True}
        run_s = float((config.get("maxRunDuration") or "604800s").removesuffix("s"))
        wrong = {
            "Flex start requires autoscaling to be enabled.": not scaling.get("enabled"),
            "Flex start requires initial node count 0.": pool.get("initialNodeCount", 0) != 0,
            "Flex start requires minimum node count 0.": scaling.get("totalMinNodeCount", 0) != 0,
            "Flex start requires the location policy ANY.": scaling.get("locationPolicy") != "ANY",
            "Flex start requires node auto-repair to be disabled.": managed.get("autoRepair", False),
            "Flex start requires reservation affinity NO_RESERVATION.": affinity != "NO_RESERVATION",
            "Flex start cannot be used with Spot VMs.": bool(config.get("spot")),
            "Max run duration must be between 10 minutes and 7 days.": not 600 <= run_s <= 604800,
            "Flex start supports the SHORT_LIVED upgrade strategy only.": (
                pool.get("upgradeSettings") or {}
            ).get("strategy", "SHORT_LIVED")
            != "SHORT_LIVED",
            "Flex start is not supported for this machine type.": str(config.get("machineType")).startswith(
                ("ct3", "ct4")
            ),
        }
        for message, is_wrong in wrong.items():
            if is_flex(pool) and is_wrong:
                raise RefusedError(400, "INVALID_ARGUMENT", message)

    def _advance(self) -> None:
        now_s = time.monotonic()
        for name, pool in list(self.pools.items()):
            if pool.status == "PROVISIONING" and now_s >= pool.done_s:
                pool.status = "ERROR" if pool.fails else "RUNNING"
                self._end(name, pool.fails)
            if pool.status == "STOPPING" and now_s >= pool.gone_s:
                del self.pools[name]
                self.filled.discard(name)
                self._end(name, "")

    def _operation(self, kind: str, pool: str) -> Json:
        name = f"operation-{time.time_ns() // 10**6}-{uuid.uuid4()}"
        operation = {
            "name": name,
            "operationType": kind,
            "status": "RUNNING",
            "targetLink": f"nodePools/{pool}",
        }
        self.operations[name] = operation
        return dict(operation)

    def _end(self, pool: str, error: str) -> None:
        for operation in self.operations.values():
            if operation["targetLink"].endswith(f"/{pool}") and operation["status"] == "RUNNING":
                operation["status"] = "DONE"
                if error:
                    operation["error"] = {"code": 8, "message": error}

    def _find(self, name: str) -> Pool:
        if name not in self.pools:
            raise RefusedError(404, "NOT_FOUND", f"Not found: node pool {name}.")
        return self.pools[name]

    def _shown(self, pool: Pool) -> Json:
        shown = {**pool.body, "status": pool.status, "etag": uuid.uuid4().hex}
        if pool.status == "ERROR":
            shown["conditions"] = [{"code": "GCE_STOCKOUT", "message": pool.fails}]
        return shown

    def _place(self, pool: Pool) -> tuple[bool, str]:
        return bool(pool.body.get("config", {}).get("spot")), (pool.body.get("locations") or [""])[0]
