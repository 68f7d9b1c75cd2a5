"""How many decisions are made in a second of processor time, each with the view it takes."""

from time import process_time, time

import msgspec

from accelet.fakeapi import FakeApi
from accelet.kube.nodes import parse_node
from accelet.kube.objects import RawObject
from accelet.kube.podparser import parse_pod
from accelet.provisioner.deciding.decide import decide
from accelet.provisioner.demand.selectors import NODE_POOL
from accelet.provisioner.pools.pool import PoolList
from accelet.provisioner.providers.simulated.body import parse_pool, pool_of
from accelet.provisioner.record import parse_request
from accelet.provisioner.settings import DEFAULT_SETTINGS, LimitSettings
from accelet.provisioner.state import ProvisionerState
from benches.provisioner.cluster import MAPS, NAMESPACE, NODES, PODS, REQUESTS, fill, request

_RUNS = 3


def measure(slices: int, waiting: int) -> tuple[float, float]:
    """Decisions a second over that many ready slices of four machines, and over those that wait for room."""
    settings = msgspec.structs.replace(DEFAULT_SETTINGS, limits=LimitSettings(slices=slices))
    with FakeApi() as api:
        fill(api, slices, "a-cluster")
        state = ProvisionerState(settings, NODE_POOL)
        for raw in _objects(api, NODES):
            state.set_node(parse_node(raw))
        for raw in _objects(api, PODS):
            pod = parse_pod(raw)
            state.set_pod((pod.namespace, pod.name), pod)
        for raw in _objects(api, REQUESTS):
            state.set_request(parse_request(raw))
        now_s = time()
        pools = (pool_of(parse_pool(raw), settings.simulated, now_s) for raw in _objects(api, MAPS))
        listed = PoolList(tuple(pools), now_s)
        for number in range(waiting):
            made = api.state.create(REQUESTS, NAMESPACE, request(slices + number))
            state.set_request(parse_request(msgspec.Raw(msgspec.json.encode(made))))
    return _rate(state, listed, "Ready"), _rate(state, listed, "Pending")


def _rate(state: ProvisionerState, listed: PoolList, phase: str) -> float:
    chosen = [one for one in state.requests.values() if one.status.phase == phase]
    best = 0.0
    for _ in range(_RUNS):
        began_s = process_time()
        for one in chosen:
            step = decide(state.view(one, listed, listed.asked_s))
            assert step.record.phase == phase, step
        best = max(best, len(chosen) / (process_time() - began_s))
    return best


def _objects(api: FakeApi, resource: str) -> list[RawObject]:
    return [msgspec.Raw(msgspec.json.encode(one)) for one in api.state.list(resource, {}, None)["items"]]
