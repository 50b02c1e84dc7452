"""The fields of KServe's resources that our manifests use, as JSON schemas.

Restated from KServe 0.21's custom resource definitions (ClusterServingRuntime of
serving.kserve.io/v1alpha1, InferenceService of v1beta1); what those do not name is
refused here. Containers are those of Kubernetes.
"""

from __future__ import annotations

from typing import Any

Schema = dict[str, Any]
TEXT: Schema = {"type": "string", "minLength": 1}
COUNT: Schema = {"type": "integer", "minimum": 0}
FLAG: Schema = {"type": "boolean"}
QUANTITY: Schema = {"type": ["string", "integer"], "pattern": r"^[0-9.]+[mkMGT]?i?$"}
NAMES: Schema = {"type": "object", "additionalProperties": {"type": "string"}}
PROTOCOLS: Schema = {"enum": ["v1", "v2", "grpc-v1", "grpc-v2"]}


def record(required: list[str], **fields: Schema) -> Schema:
    """An object of these fields and no others."""
    return {
        "type": "object",
        "required": required,
        "properties": fields,
        "additionalProperties": False,
    }


def listed(items: Schema) -> Schema:
    return {"type": "array", "minItems": 1, "items": items}


METADATA = record(["name"], name=TEXT, labels=NAMES, annotations=NAMES)
RESOURCES = record(
    [],
    requests={"type": "object", "additionalProperties": QUANTITY},
    limits={"type": "object", "additionalProperties": QUANTITY},
)
PORT = record(
    ["containerPort"],
    name=TEXT,
    containerPort={"type": "integer", "minimum": 1, "maximum": 65535},
    protocol={"enum": ["TCP", "UDP"]},
)
SECURITY = record(
    [],
    allowPrivilegeEscalation=FLAG,
    privileged=FLAG,
    readOnlyRootFilesystem=FLAG,
    runAsNonRoot=FLAG,
    runAsUser=COUNT,
    capabilities=record([], drop=listed(TEXT), add=listed(TEXT)),
    seccompProfile=record(["type"], type={"enum": ["RuntimeDefault", "Localhost"]}),
)
PROBE = record(
    [],
    httpGet=record(["port"], path=TEXT, port={"type": ["integer", "string"]}),
    periodSeconds=COUNT,
    timeoutSeconds=COUNT,
    failureThreshold=COUNT,
)
CONTAINER = record(
    ["name"],
    name={"const": "kserve-container"},
    image=TEXT,
    args=listed(TEXT),
    env=listed(record(["name"], name=TEXT, value={"type": "string"})),
    ports=listed(PORT),
    readinessProbe=PROBE,
    livenessProbe=PROBE,
    startupProbe=PROBE,
    resources=RESOURCES,
    securityContext=SECURITY,
)
RUNTIME = record(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": "serving.kserve.io/v1alpha1"},
    kind={"const": "ClusterServingRuntime"},
    metadata=METADATA,
    spec=record(
        ["containers"],
        annotations=NAMES,
        supportedModelFormats=listed(
            record(
                ["name"],
                name=TEXT,
                version=TEXT,
                autoSelect=FLAG,
                priority={"type": "integer", "minimum": 1},
            )
        ),
        protocolVersions=listed(PROTOCOLS),
        multiModel=FLAG,
        disabled=FLAG,
        containers=listed(CONTAINER),
    ),
)
MODEL = record(
    ["modelFormat"],
    modelFormat=record(["name"], name=TEXT, version=TEXT),
    protocolVersion=PROTOCOLS,
    runtime=TEXT,
    storageUri={"type": "string", "pattern": r"^[a-z0-9]+://"},
    args=listed(TEXT),
    ports=listed(PORT),
    resources=RESOURCES,
)
SERVICE = record(
    ["apiVersion", "kind", "metadata", "spec"],
    apiVersion={"const": "serving.kserve.io/v1beta1"},
    kind={"const": "InferenceService"},
    metadata=METADATA,
    spec=record(
        ["predictor"],
        predictor=record(
            [],
            minReplicas=COUNT,
            maxReplicas=COUNT,
            scaleMetric={"enum": ["cpu", "memory", "concurrency", "rps"]},
            scaleTarget=COUNT,
            canaryTrafficPercent={"type": "integer", "minimum": 0, "maximum": 100},
            containerConcurrency=COUNT,
            model=MODEL,
        ),
    ),
)
SCHEMAS = {"ClusterServingRuntime": RUNTIME, "InferenceService": SERVICE}
