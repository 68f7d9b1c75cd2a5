"""GPUTasks of falldio.com/v1 become ours, or one sentence for each thing that is wrong with them."""

import re
from typing import Any

import msgspec
import pytest
import yaml
from click.testing import CliRunner, Result
from hypothesis import given
from hypothesis import strategies as st

from accelet.cli import main
from accelet.gputask.original import NotConvertibleError, OriginalOptions, convert_original
from accelet.kinds.gputask import GPUTaskSpec

SPEC = {"memory": "1Gi", "cpu": "500m", "gpu": "a100", "gpu-amount": "2", "priority": "high"}


def original(**spec: Any) -> dict[str, Any]:
    fields = {key.replace("_", "-"): value for key, value in spec.items()}
    return {
        "apiVersion": "falldio.com/v1",
        "kind": "GPUTask",
        "metadata": {"name": "gpu-task"},
        "spec": {key: value for key, value in {**SPEC, **fields}.items() if value is not None},
    }


def run(text: str, *words: str) -> Result:
    return CliRunner().invoke(main, ["task", "convert", "-", *words], input=text)


def test_the_five_fields_mean_what_they_meant() -> None:
    body = convert_original(original(), OriginalOptions())

    spec = msgspec.convert(body["spec"], GPUTaskSpec)
    assert (spec.container.cpu, spec.container.memory) == ("500m", "1Gi")
    assert spec.cards is not None
    assert (spec.cards.resource, spec.cards.cards) == ("falldio.com/gpu", 2)
    assert spec.node_selector == {"falldio.com/gpu": "a100"}
    assert spec.priority_class_name == "high"
    assert spec.container.image == "nvidia/cuda:11.0-base"


@pytest.mark.parametrize(
    ("wrong", "sentence"),
    [
        ({"memory": ""}, "spec.memory is missing"),
        ({"memory": None}, "spec.memory is missing"),
        ({"memory": "1 Gi"}, "is no quantity"),
        ({"cpu": "many"}, "is no quantity"),
        ({"cpu": "0"}, "spec.cpu must be above 0"),
        ({"gpu": ""}, "spec.gpu is empty"),
        ({"gpu_amount": "two"}, "must be a whole number from 1 to 64"),
        ({"gpu_amount": "1500m"}, "must be a whole number from 1 to 64"),
        ({"gpu_amount": "0"}, "must be a whole number from 1 to 64"),
        ({"gpu_amount": True}, "must be a whole number from 1 to 64"),
        ({"gpus": "1"}, "spec.gpus is unknown"),
        ({"gpu": "NVIDIA A100 80GB"}, 'spec.gpu is no value of a label: "NVIDIA A100 80GB" may have letters'),
        ({"gpu": "a" * 64}, "is longer than 63 characters"),
        ({"gpu": "-a100"}, "begins and ends with a letter or digit"),
        ({"priority": "High Priority"}, "spec.priority is no name of a PriorityClass"),
    ],
)
def test_what_made_the_original_panic_is_a_sentence_and_exit_code_2(
    wrong: dict[str, Any], sentence: str
) -> None:
    result = run(yaml.safe_dump(original(**wrong)))

    assert result.exit_code == 2
    assert sentence in result.stderr
    assert result.stdout == ""


def test_several_documents_are_all_converted_or_none() -> None:
    good, bad = yaml.safe_dump(original()), yaml.safe_dump(original(gpu=""))

    assert len(list(yaml.safe_load_all(run(f"{good}---\n{good}").stdout))) == 2
    assert run(f"{good}---\n{bad}").stdout == ""
    assert "object 1 is no GPUTask of falldio.com/v1" in run("kind: Pod").stderr
    assert run("").exit_code == 2


def test_image_label_and_resource_can_be_said() -> None:
    words = ("--image", "app", "--gpu-label", "example.com/model", "--gpu-resource", "nvidia.com/gpu")
    spec = yaml.safe_load(run(yaml.safe_dump(original()), *words).stdout)["spec"]

    assert spec["container"]["image"] == "app"
    assert spec["nodeSelector"] == {"example.com/model": "a100"}
    assert spec["cards"]["resource"] == "nvidia.com/gpu"


@pytest.mark.parametrize(
    ("metadata", "sentence"),
    [
        ({"labels": {"team": "the best"}}, 'metadata.labels: "the best" may have letters'),
        ({"labels": {"a b/c": "x"}}, 'metadata.labels: the part of "a b/c" before the slash'),
        ({"labels": {"x": 1}}, "metadata.labels must be texts by texts"),
        ({"annotations": {"a b": "any text at all"}}, 'metadata.annotations: "a b" may have'),
        ({"namespace": "My Team"}, 'metadata.namespace: "My Team" must be at most 63 of a-z'),
        ({"namespace": 7}, "metadata.namespace is no text"),
    ],
)
def test_what_the_api_server_would_refuse_is_a_sentence(metadata: dict[str, Any], sentence: str) -> None:
    body = original()
    result = run(yaml.safe_dump({**body, "metadata": {**body["metadata"], **metadata}}))

    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr


@pytest.mark.parametrize(
    ("word", "value", "sentence"),
    [
        ("--gpu-label", "gpu model", "the label of nodes has no name of one"),
        ("--gpu-label", "example.com/", "has no name"),
        ("--gpu-resource", "gpu", '"gpu" has no domain, as nvidia.com/gpu has'),
        ("--gpu-resource", "nvidia com/gpu", "the resource of cards is none"),
    ],
)
def test_options_that_no_task_could_have_are_refused(word: str, value: str, sentence: str) -> None:
    result = run(yaml.safe_dump(original()), word, value)

    assert (result.exit_code, result.stdout) == (2, "")
    assert sentence in result.stderr


_ANY = st.none() | st.booleans() | st.integers() | st.text(max_size=30) | st.lists(st.integers(), max_size=2)


@given(st.dictionaries(st.sampled_from([*SPEC, "x"]), _ANY), _ANY)
def test_whatever_was_written_is_a_task_of_ours_or_sentences(spec: dict[str, Any], name: Any) -> None:
    raw = {"metadata": {"name": name}, "spec": spec}
    try:
        body = convert_original(raw, OriginalOptions())
    except NotConvertibleError as error:
        told = list(error.problems)
        assert told
    else:
        msgspec.convert(body["spec"], GPUTaskSpec)
        (value,) = body["spec"]["nodeSelector"].values()
        assert re.fullmatch("([A-Za-z0-9]([-A-Za-z0-9_.]{0,61}[A-Za-z0-9])?)?", value)
