"""The fake reads as a story, with a real plugin on the other end of real sockets."""

from accelet.fakekubelet import FakeKubelet, Phase, a_container, a_pod
from accelet.fakekubelet.sample_plugin import SamplePlugin
from tests.integration.fakekubelet.conftest import SAMPLE


async def test_a_pod_gets_what_the_plugin_answers(kubelet: FakeKubelet, plugin: SamplePlugin) -> None:
    sample = await kubelet.registered(SAMPLE)
    await sample.devices(healthy=4)
    pod = await kubelet.admit(a_pod("train", limits={SAMPLE: 2}))
    assert pod.phase is Phase.RUNNING
    ids = pod["main"].devices[SAMPLE]
    assert pod["main"].options.envs == {"SAMPLE_DEVICES": ",".join(ids)}
    assert [mount.container_path for mount in pod["main"].options.mounts] == [f"/run/sample/{i}" for i in ids]
    assert (sample.capacity, sample.allocatable, sample.held) == (4, 4, frozenset(ids))


async def test_a_pod_too_many_is_rejected_as_a_user_would_see_it(
    kubelet: FakeKubelet, plugin: SamplePlugin
) -> None:
    await (await kubelet.registered(SAMPLE)).devices(healthy=4)
    await kubelet.admit(a_pod("first", limits={SAMPLE: 3}))
    second = await kubelet.admit(a_pod("second", limits={SAMPLE: 2}))
    assert second.rejection is not None
    assert second.rejection.reason == "UnexpectedAdmissionError"
    assert second.rejection.message == (
        f"Pod was rejected: Allocate failed due to requested number of devices unavailable for {SAMPLE}. "
        "Requested: 2, Available: 1, which is unexpected"
    )


async def test_a_restart_keeps_what_running_pods_hold(kubelet: FakeKubelet, plugin: SamplePlugin) -> None:
    sample = await kubelet.registered(SAMPLE)
    await sample.devices(healthy=4)
    pod = await kubelet.admit(a_pod(limits={SAMPLE: 1}))
    allocations = sum(event.event == "allocate" for event in kubelet.trace)
    await kubelet.restart()
    await sample.registered(times=2)
    await sample.devices(healthy=4)
    await kubelet.decided(pod)
    assert pod.phase is Phase.RUNNING
    assert sample.held == set(pod["main"].devices[SAMPLE])
    assert sum(event.event == "allocate" for event in kubelet.trace) == allocations


async def test_init_containers_lend_their_devices_and_sidecars_keep_them(
    kubelet: FakeKubelet, plugin: SamplePlugin
) -> None:
    await (await kubelet.registered(SAMPLE)).devices(healthy=4)
    pod = await kubelet.admit(
        a_pod(
            init_containers=[
                a_container("init", {SAMPLE: 2}),
                a_container("sidecar", {SAMPLE: 1}, restart_policy="Always"),
            ],
            containers=[a_container("main", {SAMPLE: 3})],
        )
    )
    init, sidecar, main = (set(pod[name].devices[SAMPLE]) for name in ("init", "sidecar", "main"))
    assert sidecar < init
    assert init - sidecar < main
    assert not sidecar & main
