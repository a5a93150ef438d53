# SPDX-License-Identifier: Apache-2.0
"""The files of scripts/deploy as data: the fields that the restricted level of pod security and a cluster's quotas
require, the component applied to a Deployment, mounts and references that must exist. Without arguments checks all,
and that each check notices a fault. With "pod PATH..." prints values of the pod."""

import copy
import json
import os
import re
import sys

import yaml

DEPLOY = "scripts/deploy"
KUBERNETES = f"{DEPLOY}/kubernetes"
PREFIX = "/opt/spanprof"
PROFILE_TYPES = {"tempo": "process_cpu:cpu:nanoseconds:cpu:nanoseconds",
                 "tempo-wall": "wall:wall:nanoseconds:wall:nanoseconds",
                 "tempo-off-cpu": "off_cpu:off_cpu:nanoseconds::"}
VOLUMES_ALLOWED = {"configMap", "csi", "downwardAPI", "emptyDir", "ephemeral", "name",
                   "persistentVolumeClaim", "projected", "secret"}


class Wrong(Exception):
    pass


def require(fact, text):
    if not fact:
        raise Wrong(text)


def load(path):
    with open(path) as f:
        return [d for d in yaml.safe_load_all(f) if d is not None]


def check_restricted(pod):
    """https://kubernetes.io/docs/concepts/security/pod-security-standards/, restricted, and a read-only root, which
    it does not require."""
    everywhere = pod.get("securityContext", {})
    for key in ("hostNetwork", "hostPID", "hostIPC", "shareProcessNamespace"):
        require(not pod.get(key), key)
    for volume in pod["volumes"]:
        require(set(volume) <= VOLUMES_ALLOWED, f"volume {volume}")
        if "emptyDir" in volume:
            require((volume["emptyDir"] or {}).get("sizeLimit"), f"{volume['name']} has no limit")
    for container in pod["containers"] + pod.get("initContainers", []):
        own = container.get("securityContext", {})
        name = container["name"]
        require(own.get("allowPrivilegeEscalation") is False, f"{name}: allowPrivilegeEscalation")
        require(own.get("capabilities", {}).get("drop") == ["ALL"], f"{name}: capabilities")
        require(not own["capabilities"].get("add"), f"{name}: capabilities added")
        require(not own.get("privileged"), f"{name}: privileged")
        require(own.get("readOnlyRootFilesystem") is True, f"{name}: root is writable")
        require(own.get("runAsNonRoot", everywhere.get("runAsNonRoot")) is True, f"{name}: runAsNonRoot")
        require(own.get("runAsUser", everywhere.get("runAsUser", 1)) != 0, f"{name}: runs as root")
        seccomp = own.get("seccompProfile", everywhere.get("seccompProfile", {})).get("type")
        require(seccomp in ("RuntimeDefault", "Localhost"), f"{name}: seccomp {seccomp}")
        require(not any("hostPort" in p for p in container.get("ports", [])), f"{name}: hostPort")
        require("limits" in container.get("resources", {}), f"{name}: no limits")


def container_of(pod, name, kind="containers"):
    return next(c for c in pod[kind] if c["name"] == name)


def check_profiled(pod, name):
    """The init container fills the volume, and the other container reads it and preloads from it."""
    init = container_of(pod, "spanprof", "initContainers")
    app = container_of(pod, name)
    require({"name": "spanprof", "mountPath": "/spanprof"} in init["volumeMounts"], "not filled")
    require({"name": "spanprof", "mountPath": "/spanprof", "readOnly": True} in app["volumeMounts"],
            "not mounted read-only")
    volumes = {v["name"] for v in pod["volumes"]}
    for mount in init["volumeMounts"] + app["volumeMounts"]:
        require(mount["name"] in volumes, f"no volume {mount['name']}")
    env = {e["name"]: e for e in app["env"]}
    require(len(env) == len(app["env"]), "a variable is set twice")
    first = env["LD_PRELOAD"]["value"].split(":")[0]
    require(first == "/spanprof/lib/spanprof/libspanprof.so", f"LD_PRELOAD begins with {first}")
    for variable in env:
        require(not re.search("PASSWORD$|TOKEN$|HEADERS$", variable), f"{variable}: a secret")
    for variable, entry in env.items():
        for used in re.findall(r"\$\((\w+)\)", entry.get("value", "")):
            # Kubernetes only replaces references to earlier variables, and leaves others unchanged.
            require(used in env and list(env).index(used) < list(env).index(variable),
                    f"{variable}: $({used})")


def add_by_json_patch(document, operations):
    """The only kind of operation that we use: appending to an existing list."""
    for operation in operations:
        require(operation["op"] == "add" and operation["path"].endswith("/-"), operation["path"])
        where = document
        for part in operation["path"].strip("/").split("/")[:-1]:
            where = where[int(part) if isinstance(where, list) else part]
        where.append(operation["value"])


def component_applied():
    kustomization, = load(f"{KUBERNETES}/component/kustomization.yaml")
    require(kustomization["kind"] == "Component", "not a component")
    paths = [p["path"] for p in kustomization["patches"]]
    require(paths == ["pod.yaml", "first-container.yaml"], str(paths))
    require(all(p["target"]["kind"] == "Deployment" for p in kustomization["patches"]), "target")
    merged, = load(f"{KUBERNETES}/component/{paths[0]}")
    operations, = load(f"{KUBERNETES}/component/{paths[1]}")
    deployment = copy.deepcopy(application()[1])
    pod = deployment["spec"]["template"]["spec"]
    app = pod["containers"][0]
    app["env"], app["volumeMounts"] = [], []
    # A strategic merge joins these lists by name.
    pod.update(merged["spec"]["template"]["spec"])
    add_by_json_patch(deployment, operations)
    return pod


def application():
    secret, deployment = load(f"{KUBERNETES}/checkout.yaml")
    require((secret["kind"], deployment["kind"]) == ("Secret", "Deployment"), "kinds")
    return secret, deployment


def check_application(secret, deployment):
    spec = deployment["spec"]
    pod = spec["template"]["spec"]
    labels = spec["template"]["metadata"]["labels"]
    require(spec["selector"]["matchLabels"].items() <= labels.items(), "selects other pods")
    check_restricted(pod)
    check_profiled(pod, "checkout")
    env = {e["name"]: e for e in container_of(pod, "checkout")["env"]}
    fields = {n: e["valueFrom"]["fieldRef"]["fieldPath"] for n, e in env.items() if "valueFrom" in e}
    require(fields["POD_NAME"] == "metadata.name", "POD_NAME")
    require(fields["POD_NAMESPACE"] == "metadata.namespace", "POD_NAMESPACE")
    require(fields["NODE_NAME"] == "spec.nodeName", "NODE_NAME")
    # The attributes of the resource are labels already.
    require("SPANPROF_LABELS" not in env, "a label comes twice")
    files = {m["mountPath"]: m["name"] for m in container_of(pod, "checkout")["volumeMounts"]}
    folder, key = os.path.split(env["SPANPROF_BASIC_AUTH_PASSWORD_FILE"]["value"])
    volume = next(v for v in pod["volumes"] if v["name"] == files.get(folder))
    require(volume["secret"]["secretName"] == secret["metadata"]["name"], "another secret")
    require(key in secret["stringData"], f"the secret has no {key}")


def check_patch(path):
    """kubectl patch merges it like this: lists of containers, volumes and variables by name."""
    patch, = load(path)
    require(set(patch) == {"spec"}, f"{path}: more than a patch of the pod")
    pod = patch["spec"]["template"]["spec"]
    if "initContainers" in pod:
        component, = load(f"{KUBERNETES}/component/pod.yaml")
        for key in ("initContainers", "volumes"):
            require(pod[key] == component["spec"]["template"]["spec"][key], f"{path}: {key}")
        check_profiled(pod, "checkout")
        return
    app, = pod["containers"]
    volume, = pod["volumes"]
    mount, = app["volumeMounts"]
    require(volume["image"]["reference"].split("/")[-1] == "spanprof:1", f"{path}: not the carrier")
    require(mount["name"] == volume["name"] and mount["readOnly"], f"{path}: not mounted read-only")
    env = {e["name"]: e["value"] for e in app["env"]}
    require(env["LD_PRELOAD"] == f"{mount['mountPath']}{PREFIX}/lib/spanprof/libspanprof.so", env["LD_PRELOAD"])


def check_override(path):
    """A file that compose merges with the user's own."""
    (name, service), = load(path)[0]["services"].items()
    require(service["volumes"] == [f"{PREFIX}:{PREFIX}:ro"], f"{name}: volumes")
    require(service["environment"]["LD_PRELOAD"] == f"{PREFIX}/lib/spanprof/libspanprof.so", name)


def check_compose(compose, folder):
    services = compose["services"]
    require({"rideshare", "pyroscope", "tempo", "grafana", "jaeger"} <= set(services), "services")
    for name, service in services.items():
        require(("image" in service) != ("build" in service), f"{name}: image or build")
        require(":" in service.get("image", ":") and not service.get("image", "").endswith(":latest"),
                f"{name}: which version?")
        for volume in service.get("volumes", []):
            source, _, mode = volume.split(":")
            require(os.path.isfile(f"{folder}/{source}") and mode == "ro", f"{name}: {volume}")
        if "build" in service:
            context = f"{folder}/{service['build']['context']}"
            require(os.path.isfile(f"{context}/{service['build']['dockerfile']}"), f"{name}: dockerfile")
        mode = service.get("network_mode", "")
        for used in service.get("depends_on", []) + [mode[8:]] * mode.startswith("service:"):
            require(used in services, f"{name}: no service {used}")
        for value in service.get("environment", {}).values():
            host = re.match(r"http://([a-z]+):\d+$", value)
            require(not host or host[1] in list(services) + ["localhost"], f"{name}: {value}")
        for port in service.get("ports", []):
            require(port.startswith("127.0.0.1:"), f"{name}: {port} is open to others")


def check_grafana(provisioned, compose):
    sources = {s["uid"]: s for s in provisioned["datasources"]}
    require(len(sources) == len(provisioned["datasources"]), "a uid is used twice")
    require(sum(s.get("isDefault", False) for s in sources.values()) == 1, "not one default")
    for source in sources.values():
        require(re.match(r"http://(\w+):", source["url"])[1] in compose["services"], source["url"])
    for uid, profile_type in PROFILE_TYPES.items():
        link = sources[uid]["jsonData"]["tracesToProfiles"]
        require(sources[link["datasourceUid"]]["type"] == "grafana-pyroscope-datasource", "no such source")
        require(link["profileTypeId"] == profile_type, f"{uid}: profile type")
        require({"key": "service.name", "value": "service_name"} in link["tags"], "tags")
    # These types must exist to be shown.
    for variable in ("SPANPROF_OFF_CPU", "SPANPROF_WALL"):
        require(compose["services"]["rideshare"]["environment"][variable] == "true", variable)


def stages_of(path):
    """[(name, base, [(instruction, rest)])] of a Dockerfile."""
    text = re.sub(r"\\\n", " ", "".join(l for l in open(path) if not l.startswith("#")))
    stages = []
    for line in filter(None, map(str.strip, text.splitlines())):
        word, _, rest = line.partition(" ")
        if word == "FROM":
            base, _, name = re.fullmatch(r"(\S+)( AS (\S+))?", rest).groups()
            stages.append((name, base, []))
        elif stages:
            stages[-1][2].append((word, rest.strip()))
    return stages


def check_dockerfile(path):
    stages = stages_of(path)
    names = [s[0] for s in stages]
    for name, base, steps in stages:
        for word, rest in steps:
            source = re.match(r"--from=(\S+) (\S+)", rest) if word == "COPY" else None
            require(not source or source[1] in names, f"{path}: no stage {rest}")
            if source and source[2].startswith("/src/"):
                require(os.path.exists(source[2][5:]), f"{path}: no {source[2]}")
            if word in ("ENTRYPOINT", "CMD"):
                require(isinstance(json.loads(rest), list), f"{path}: {word} is not in exec form")
    finals = [s for s in stages if s[0] in (None, "carrier", "init", "autoinstrumentation")]
    for name, _, steps in finals or stages[-1:]:
        users = [rest for word, rest in steps if word == "USER"]
        require(users and re.fullmatch(r"[1-9]\d*:[1-9]\d*", users[-1]), f"{path} {name}: USER")


def keys_below(value, path=()):
    items = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in items:
        yield path + (key,)
        yield from keys_below(inner, path + (key,))


def without(document, path):
    document = copy.deepcopy(document)
    where = document
    for key in path[:-1]:
        where = where[key]
    del where[path[-1]]
    return document


def bites(check, document, wanted):
    """The removal of any field with one of these names is noticed."""
    tried = 0
    for path in keys_below(document):
        if path[-1] in wanted:
            tried += 1
            try:
                check(without(document, path))
            except (Wrong, KeyError, StopIteration, IndexError):
                continue
            raise Wrong(f"unnoticed without {path}")
    require(tried, f"nothing to remove: {wanted}")


def main():
    secret, deployment = application()
    pod = deployment["spec"]["template"]["spec"]
    check_application(secret, deployment)
    bites(check_restricted, pod, {"allowPrivilegeEscalation", "readOnlyRootFilesystem", "capabilities",
                                  "sizeLimit", "limits", "drop"})
    bites(lambda p: check_profiled(p, "checkout"), pod, {"initContainers", "volumes"})
    # Written twice, for the pod and for each container; only without both it is wrong.
    bites(check_restricted, without(pod, ("securityContext",)), {"runAsNonRoot", "seccompProfile"})
    bites(lambda d: check_application(secret, d), deployment, {"secretName"})
    component = component_applied()
    check_restricted(component)
    check_profiled(component, "checkout")
    for name in ("patch", "image-volume"):
        check_patch(f"{KUBERNETES}/{name}.yaml")
    folder = f"{DEPLOY}/compose"
    check_override(f"{folder}/checkout.yaml")
    compose, = load(f"{folder}/compose.yaml")
    check_compose(compose, folder)
    bites(lambda c: check_compose(c, folder), compose, {"pyroscope", "image", "dockerfile"})
    provisioned, = load(f"{folder}/grafana-datasources.yaml")
    check_grafana(provisioned, compose)
    bites(lambda p: check_grafana(p, compose), provisioned, {"tracesToProfiles", "profileTypeId", "isDefault"})
    for name in ("collector", "tempo"):
        load(f"{folder}/{name}.yaml")
    for path in (f"{DEPLOY}/Dockerfile", f"{DEPLOY}/Dockerfile.app", f"{folder}/Dockerfile"):
        check_dockerfile(path)


def values(wanted):
    """The values that the test of the pod takes from the files: "env NAME", "init-user", "init-command"."""
    pod = application()[1]["spec"]["template"]["spec"]
    if wanted[0] == "env":
        env = container_of(pod, "checkout")["env"]
        print(next(e["value"] for e in env if e["name"] == wanted[1]))
    elif wanted[0] == "init-user":
        print(container_of(pod, "spanprof", "initContainers")["securityContext"]["runAsUser"])
    else:
        stage = next(s for s in stages_of(f"{DEPLOY}/Dockerfile") if s[0] == "init")
        print("\n".join(json.loads(next(rest for word, rest in stage[2] if word == "ENTRYPOINT"))))


if __name__ == "__main__":
    try:
        values(sys.argv[1:]) if len(sys.argv) > 1 else main()
    except Wrong as wrong:
        sys.exit(f"manifests: {wrong}")
