"""tests/project/kubernetes.json: the schemas that the manifests of docs/kubernetes are validated against.

    python scripts/kubernetes_schemas.py DEFINITIONS CRD...

DEFINITIONS is _definitions.json of the strict schemas in the package kubernetes-validate. Each CRD is a file of an
operator: trainjobs and trainingruntimes of Kubeflow Trainer, jobsets, leaderworkersets, rayjobs. Descriptions are left
out, and a pod's template inside a CRD is that of Kubernetes itself. PyTorchJob, whose operator is archived, is written
down here (training-operator 1.9, pkg/apis/kubeflow.org/v1).
"""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import yaml

TARGET = Path(__file__).resolve().parents[1] / "tests/project/kubernetes.json"
OWN = (
    "batch.v1.Job", "core.v1.Service", "apps.v1.DaemonSet", "core.v1.ServiceAccount", "core.v1.ConfigMap",
    "rbac.v1.ClusterRole", "rbac.v1.ClusterRoleBinding",
)  # fmt: skip
POD = "io.k8s.api.core.v1.PodTemplateSpec"
SPEC = "io.k8s.api.core.v1.PodSpec"
CONTAINER = "io.k8s.api.core.v1.Container"
DROPPED = ("description", "x-kubernetes-validations", "status", "format")
INTEGER = {"type": "integer"}
REPLICAS = {
    "replicas": INTEGER,
    "restartPolicy": {"enum": ["Always", "OnFailure", "Never", "ExitCode"]},
    "template": {"$ref": f"#/definitions/{POD}"},
}


def strict(properties: Mapping[str, Any], **more: Any) -> dict[str, Any]:
    return {"type": "object", "properties": dict(properties), "additionalProperties": False, **more}


HEAD = {"apiVersion": {}, "kind": {}, "metadata": {"type": "object"}}
PYTORCHJOB = strict(
    HEAD
    | {
        "spec": strict(
            {
                "nprocPerNode": {"type": "string"},
                "pytorchReplicaSpecs": strict({"Master": strict(REPLICAS), "Worker": strict(REPLICAS)}),
                "runPolicy": strict(
                    {
                        "cleanPodPolicy": {"enum": ["", "All", "Running", "None"]},
                        "ttlSecondsAfterFinished": INTEGER,
                        "activeDeadlineSeconds": INTEGER,
                        "backoffLimit": INTEGER,
                        "schedulingPolicy": {"type": "object"},
                    }
                ),
            },
            required=["pytorchReplicaSpecs"],
        )
    }
)


def bare(schema: Any, crd: bool) -> Any:
    """Return a schema without what no manifest is checked for; ``crd``: unknown fields are errors there, too."""
    if isinstance(schema, list):
        return [bare(one, crd) for one in schema]
    if not isinstance(schema, dict):
        return schema
    properties = schema.get("properties")
    if crd and isinstance(properties, dict):
        for known, field in ((SPEC, "initContainers"), (CONTAINER, "imagePullPolicy")):
            if field in properties:
                return {"$ref": f"#/definitions/{known}"}
    kept = {
        name: {key: bare(one, crd) for key, one in value.items()} if name == "properties" else bare(value, crd)
        for name, value in schema.items()
        if name not in DROPPED or name == "properties"
    }
    if crd and isinstance(properties, dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        kept.setdefault("additionalProperties", False)
    if schema.get("x-kubernetes-int-or-string"):
        kept = {"type": ["integer", "string"]}
    return {name: value for name, value in kept.items() if not name.startswith("x-kubernetes-") or not crd}


def referenced(schema: Any) -> set[str]:
    """Return the definitions that a schema refers to."""
    if isinstance(schema, list):
        return {name for one in schema for name in referenced(one)}
    if not isinstance(schema, dict):
        return set()
    own = {schema["$ref"].rpartition("/")[2]} if isinstance(schema.get("$ref"), str) else set()
    return own | {name for value in schema.values() for name in referenced(value)}


def main(definitions: str, *crds: str) -> None:
    known = json.loads(Path(definitions).read_text().replace("_definitions.json#/$defs/", "#/definitions/").replace(
        "#/$defs/", "#/definitions/"))["$defs"]  # fmt: skip
    kinds: dict[str, Any] = {"kubeflow.org/v1 PyTorchJob": PYTORCHJOB}
    for name in OWN:
        group, version, kind = name.split(".")
        api = version if group == "core" else f"{group}{'.authorization.k8s.io' * (group == 'rbac')}/{version}"
        kinds[f"{api} {kind}"] = {"$ref": f"#/definitions/io.k8s.api.{name}"}
    for path in crds:
        spec = yaml.safe_load(Path(path).read_text())["spec"]
        for version in spec["versions"]:
            schema = version["schema"]["openAPIV3Schema"]
            schema["properties"].pop("status", None)
            kinds[f"{spec['group']}/{version['name']} {spec['names']['kind']}"] = bare(schema, True)
    needed: dict[str, Any] = {}
    waiting = referenced(kinds)
    while waiting:
        name = waiting.pop()
        if name not in needed:
            needed[name] = bare(known[name], False)
            waiting |= referenced(needed[name])
    TARGET.write_text(json.dumps({"kinds": kinds, "definitions": needed}, separators=(",", ":"), sort_keys=True) + "\n")


if __name__ == "__main__":
    main(*sys.argv[1:])
