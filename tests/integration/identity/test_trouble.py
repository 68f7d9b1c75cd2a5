"""Restarts, lag, silence, old kubelets: the right answer or the configured refusal, never a wrong one."""

import asyncio
import json
from pathlib import Path

from click.testing import CliRunner

from accelet.cli.explain import command as explain
from accelet.fakeapi import Answer
from accelet.fakeapi.faults import Fault
from accelet.fakekubelet import a_container, a_pod
from accelet.fakekubelet.faults import Refuse
from accelet.kubelet.paths import KubeletPaths
from accelet.node.pods.nodepods import WATCHED_FILE
from tests.integration.agent.running import GPU, cards_config, until
from tests.integration.identity.test_assignments import cards, mask
from tests.integration.identity.test_policies import refusal
from tests.integration.identity.world import (
    GENERATED,
    REPLICA_SET,
    STATEFUL_SET,
    gas,
    gpu_pod,
    node,
    sample,
    served,
    tiles_config,
)
from tests.output_forms import read_form


async def test_pod_made_anew_under_its_name_is_not_taken_for_the_old_one(folder: Path) -> None:
    async with node(folder, lag_s=0.3) as world, served(world, folder, tiles_config(), devices=20) as running:
        old = world.create(gpu_pod("db-0", "card0", "card0:gt0"), owner=STATEFUL_SET)
        await until(lambda: old.uid in running.pods_known())
        world.patch(old, {"status": {"phase": "Failed"}})
        world.delete(old)
        new = await world.admit(gpu_pod("db-0", "card1", "card1:gt1"), owner=STATEFUL_SET)
        assert (cards(new), mask(new)) == (["card1"], "1")


async def test_pod_made_anew_after_a_deletion_by_force_is_refused_once(folder: Path) -> None:
    async with node(folder, lag_s=0.3) as world, served(world, folder, tiles_config(), devices=20):
        await until(lambda: world.api.count(path="/pods", watch=True) > 0)  # a list tells of no deletion
        old = world.create(gpu_pod("db-0", "card0", "card0:gt0"), owner=STATEFUL_SET)
        world.delete(old)  # the watch has shown neither; the kubelet may be admitting it
        new = await world.admit(gpu_pod("db-0", "card1", "card1:gt1"), owner=STATEFUL_SET)
        assert "deleted by force" in refusal(new)
        await world.remove(new)
        again = await world.admit(gpu_pod("db-0", "card1", "card1:gt1"), owner=STATEFUL_SET)
        assert (cards(again), mask(again)) == (["card1"], "1")


async def test_pod_without_a_token_that_was_deleted_by_force_may_be_who_calls(folder: Path) -> None:
    """The kubelet may have turned it away and be starting it, until it has come to who was bound later."""
    async with node(folder) as world, served(world, folder, tiles_config(), devices=20) as running:
        old = world.create(gpu_pod("db-0", "card0", "card0:gt0"), owner=STATEFUL_SET, token=False)
        await until(lambda: old.uid in running.pods_known())
        world.delete(old)
        await until(lambda: old.uid not in running.pods_known())
        other = await world.admit(gpu_pod(GENERATED, "card1", "card1:gt1"), owner=REPLICA_SET)
        assert "mounts no service account token" in refusal(other)
        await world.remove(other)
        await until(lambda: other.pod.uid not in running.pods_known())  # and so has seen how it ended
        third = await world.admit(gpu_pod("db-1", "card1", "card1:gt1"), owner=STATEFUL_SET)
        assert (cards(third), mask(third)) == (["card1"], "1")


async def test_watch_that_lags_is_helped_by_a_read(folder: Path) -> None:
    async with node(folder, lag_s=2.0) as world, served(world, folder, tiles_config(), devices=20):
        pod = await world.admit(gpu_pod("one", "card1", "card1:gt1"))
        assert mask(pod) == "1"


async def test_api_server_away_refuses_new_pods_only(folder: Path) -> None:
    plain = cards_config(1, name="gpu.intel.com/xe", first=40)
    async with node(folder) as world, served(world, folder, tiles_config(), plain, devices=20):
        await world.kubelet.resource("gpu.intel.com/xe").devices(healthy=1)
        before = await world.admit(gpu_pod("before", "card0", "card0:gt0"))
        world.api.faults.append(Fault(Answer(503), times=10**6))
        world.api.end_watches()
        other = await world.kubelet.admit(a_pod("other", limits={"gpu.intel.com/xe": 1}))
        assert other["main"].devices
        unknown = await world.kubelet.admit(gpu_pod("unknown", "card1", "card1:gt1"))
        assert "it cannot be told which container this call is for" in refusal(unknown)
        assert before.is_running
        world.api.faults.clear()


async def test_podresources_that_fail_refuse_with_their_reason(folder: Path) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(), devices=20):
        world.kubelet.faults.pod_resources.inject(Refuse("on fire"))
        pod = await world.admit(gpu_pod("one", "card1", "card1:gt1"))
        assert "podresources" in refusal(pod)
        world.kubelet.faults.pod_resources.lift()
        assert mask(await world.admit(gpu_pod("two", "card1", "card1:gt1"))) == "1"


async def test_restarts_of_both_sides_lose_nobody(folder: Path) -> None:
    async with node(folder) as world:
        async with served(world, folder, tiles_config(2, shares=2), devices=4):
            first = await world.admit(gpu_pod("first", "card0", "card0:gt0"))
        async with served(world, folder, tiles_config(2, shares=2), devices=4) as running:
            second = await world.admit(gpu_pod("second", "card0", "card0:gt1"))
            await world.kubelet.restart()
            await world.kubelet.resource(GPU).devices(healthy=4)
            third = await world.admit(gpu_pod("third", "card1", "card1:gt1"))
            assert [mask(pod) for pod in (first, second, third)] == ["0", "1", "1"]
            held = [device for pod in (first, second, third) for device in pod["main"].devices[GPU]]
            assert len(set(held)) == 3
            assert sample(running, "accelet_repeated_allocations_total") == 0


async def test_device_given_twice_by_the_kubelet_is_given_and_counted(folder: Path) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(1, shares=1), devices=1) as running:
        first = await world.admit(gpu_pod("first", "card0", "card0:gt0"))
        world.kubelet.forget_held(GPU, first["main"].devices[GPU])
        second = await world.admit(gpu_pod("second", "card0", "card0:gt1"))
        assert second["main"].devices == first["main"].devices
        assert mask(second) == "1"
        await until(lambda: sample(running, "accelet_repeated_allocations_total") == 1)


async def test_kubelet_133_is_matched_by_its_list(folder: Path) -> None:
    async with node(folder, "1.33") as world, served(world, folder, tiles_config(), devices=20) as running:
        init = [a_container("side", {GPU: 1}, restart_policy="Always")]
        said = gas("card1", "card1:gt1")
        pod = a_pod("one", containers=[a_container("main", {GPU: 1})], init_containers=init, annotations=said)
        assert mask(await world.admit(pod)) == "1"
        assert sample(running, "accelet_matches_total", proof="sole") == 2


async def test_two_resources_of_one_container_are_told_apart(folder: Path) -> None:
    xe = tiles_config(1).replace(GPU, "gpu.intel.com/xe").replace("0000:03", "0000:43")
    own = {
        "version": 1,
        "containers": {
            "main": {
                GPU: [{"unit": "0000-04-00.0", "tiles": [1]}],
                "gpu.intel.com/xe": [{"unit": "0000-43-00.0"}],
            }
        },
    }
    async with node(folder) as world, served(world, folder, tiles_config(), xe, devices=20) as running:
        await world.kubelet.resource("gpu.intel.com/xe").devices(healthy=10)
        await running.knows_pods()
        limits = {GPU: 1, "gpu.intel.com/xe": 1}
        pod = await world.admit(
            a_pod("both", limits=limits, annotations={"accelet.dev/assignment": json.dumps(own)})
        )
        assert mask(pod) == "1"
        assert pod["main"].devices[GPU][0].startswith("0000-04-00.0")


async def test_container_restarted_or_resized_in_place_asks_for_nothing(folder: Path) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(), devices=20) as running:
        pod = await world.admit(gpu_pod("one", "card1", "card1:gt1"))
        world.patch(pod.pod, {"metadata": {"labels": {"resized": "yes"}}})
        assert await world.kubelet.restart_container(pod)
        assert mask(pod) == "1"
        assert sample(running, "accelet_matches_total", proof="visible") == 1


async def test_explain_says_who_has_what_and_why(folder: Path) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(), devices=20):
        pod = await world.admit(gpu_pod("one", "card1", "card1:gt1"))
        options = [
            "--config",
            f"{folder}/config.yaml",
            "--host-root",
            str(folder),
            "--kubelet-dir",
            str(folder),
        ]
        options += ["--kubeconfig", str(world.kubeconfig), "--json", "default/one"]
        said = await asyncio.to_thread(CliRunner().invoke, explain, options)
        assert read_form("explain", said.stdout) == {
            "pod": "default/one",
            "uid": pod.pod.uid,
            "notes": [],
            "claims": [],
            "containers": [
                {
                    "name": "main",
                    "resource": GPU,
                    "devices": list(pod["main"].devices[GPU]),
                    "cards": ["card1"],
                    "tiles": {"card1": [1]},
                    "mask": "1",
                    "proof": "visible",
                    "agrees": True,
                    "reason": "assigned card1 tile 1",
                }
            ],
        }
        world.patch(pod.pod, {"metadata": {"annotations": gas("card1", "card1:gt0")}})
        said = await asyncio.to_thread(CliRunner().invoke, explain, options)
        (container,) = json.loads(said.stdout)["containers"]
        assert (container["agrees"], container["tiles"]) == (False, {"card1": [1]})
        assert "assigned is card1 tile 0, but its environment shows it tiles [1]" in container["reason"]


async def test_resource_without_assignments_asks_nobody(folder: Path) -> None:
    plain = cards_config(2, options="shares: 10")
    async with node(folder) as world, served(world, folder, plain, devices=20) as running:
        pod = await world.admit(gpu_pod("one", "card1", "card1:gt1"))
        assert pod["main"].devices
        assert pod["main"].options.annotations == {}
        assert [event for event in world.kubelet.trace if event.event == "podresources"] == []
        assert world.api.seen == []
        assert running.pods_known() == set()


async def test_pod_deleted_by_force_while_there_was_no_agent_is_not_taken_for_who_has_its_name(
    folder: Path,
) -> None:
    """The kubelet had not come to it yet, and admits it although it is gone."""
    async with node(folder) as world:
        async with served(world, folder, tiles_config(), devices=20) as former:
            old = world.create(gpu_pod("db-0", "card0", "card0:gt0"), owner=STATEFUL_SET)
            await until(lambda: old.uid in former.pods_known())
        assert (KubeletPaths(folder).device_plugins / WATCHED_FILE).exists()
        world.delete(old)
        new = world.create(gpu_pod("db-0", "card1", "card1:gt1"), owner=STATEFUL_SET)
        async with served(world, folder, tiles_config(), devices=20):
            late = await world.kubelet.admit(old)
            assert "deleted by force" in refusal(late)
            await world.kubelet.remove(late)
            refused = await world.kubelet.admit(new)  # the kubelet may show again whom it has turned away
            assert "deleted by force" in refusal(refused)
            world.post_status(refused)  # with which it has come to who was bound after the deletion
            await world.remove(refused)
            again = await world.admit(gpu_pod("db-0", "card1", "card1:gt1"), owner=STATEFUL_SET)
            assert (cards(again), mask(again)) == (["card1"], "1")


async def test_pod_deleted_by_force_before_the_agent_ended_is_known_to_the_next(folder: Path) -> None:
    """Also if the API server remembers nothing of that time."""
    async with node(folder) as world:
        async with served(world, folder, tiles_config(), devices=20) as former:
            old = world.create(gpu_pod("db-0", "card0", "card0:gt0"), owner=STATEFUL_SET)
            await until(lambda: old.uid in former.pods_known())
            world.delete(old)
            new = world.create(gpu_pod("db-0", "card1", "card1:gt1"), owner=STATEFUL_SET)
            await until(lambda: new.uid in former.pods_known())
        world.api.state.compact()
        async with served(world, folder, tiles_config(), devices=20) as running:
            late = await world.kubelet.admit(old)
            assert "deleted by force" in refusal(late)
            await world.kubelet.remove(late)
            # The kubelet has come to one that was bound later.
            other = await world.admit(gpu_pod(GENERATED, "card0", "card0:gt1"), owner=REPLICA_SET)
            await world.remove(other)
            await until(lambda: other.pod.uid not in running.pods_known())  # its beginning was shown before
            record = await world.kubelet.admit(new)
            assert (cards(record), mask(record)) == (["card1"], "1")


async def test_nobody_whose_name_may_recur_is_believed_where_it_is_not_known_who_had_it(folder: Path) -> None:
    """Until the kubelet has begun a pod that was bound later, and so has come to all before."""
    async with node(folder) as world:
        old = world.create(gpu_pod("db-0", "card0", "card0:gt0"), owner=STATEFUL_SET)
        world.delete(old)
        new = world.create(gpu_pod("db-0", "card1", "card1:gt1"), owner=STATEFUL_SET)
        async with served(world, folder, tiles_config(), devices=20):
            late = await world.kubelet.admit(old)
            assert "It is not known which pods were deleted" in refusal(late)
            await world.kubelet.remove(late)
            other = await world.admit(gpu_pod(GENERATED, "card0", "card0:gt1"), owner=REPLICA_SET)
            assert (cards(other), mask(other)) == (["card0"], "1")
            await until((KubeletPaths(folder).device_plugins / WATCHED_FILE).exists)  # for who comes next
            record = await world.kubelet.admit(new)
            assert (cards(record), mask(record)) == (["card1"], "1")


async def test_watch_that_began_anew_with_a_list_leaves_the_same_doubt(folder: Path) -> None:
    async with node(folder) as world, served(world, folder, tiles_config(), devices=20) as running:
        world.api.is_stalled = True
        old = world.create(gpu_pod("db-0", "card0", "card0:gt0"), owner=STATEFUL_SET)
        world.delete(old)
        new = world.create(gpu_pod("db-0", "card1", "card1:gt1"), owner=STATEFUL_SET)
        world.api.state.compact()
        world.api.is_stalled = False
        world.api.end_watches()
        await until(lambda: new.uid in running.pods_known())
        late = await world.kubelet.admit(old)
        assert "It is not known which pods were deleted" in refusal(late)
