"""Which of the kubelet's folders move with its --root-dir."""

from pathlib import Path

from accelet.kubelet.paths import KubeletPaths


def test_all_but_device_plugins_moves_with_the_root() -> None:
    paths = KubeletPaths(root_dir=Path("/var/lib/k0s/kubelet"))
    fixed = Path("/var/lib/kubelet/device-plugins")
    assert (paths.device_plugins, paths.checkpoint) == (fixed, fixed / "kubelet_internal_checkpoint")
    assert paths.plugins_registry == Path("/var/lib/k0s/kubelet/plugins_registry")
    assert paths.pod_resources_socket == Path("/var/lib/k0s/kubelet/pod-resources/kubelet.sock")


def test_one_folder_stands_for_both_where_no_root_is_given(tmp_path: Path) -> None:
    paths = KubeletPaths(tmp_path)
    assert {paths.device_plugins.parent, paths.plugins_registry.parent, paths.root} == {tmp_path}
    elsewhere = KubeletPaths(tmp_path, pod_resources=Path("/elsewhere"), root_dir=Path("/root-dir"))
    assert elsewhere.pod_resources_socket == Path("/elsewhere/kubelet.sock")
