{{/*
What every template here is made of. manifests/ are links to the files of deploy/, or in a package those files: what is
installed is written there, and the templates say only what of it is switched on, and what values change.
*/}}

{{/*
A file's text, of the release's namespace: where its objects are, whose accounts they name. What is said of kube-system
itself stays: whom policies leave alone, whom nobody evicts. Takes root, file.
*/}}
{{- define "accelet.file" -}}
{{- $text := .root.Files.Get (printf "manifests/%s" .file) | required .file -}}
{{- $namespace := .root.Release.Namespace -}}
{{- range $before := list "namespace: " "system:serviceaccount:" "namespace=\"" "kubectl -n " -}}
{{- $text = replace (printf "%skube-system" $before) (printf "%s%s" $before $namespace) $text -}}
{{- end -}}
{{- $text -}}
{{- end }}

{{/* The objects of a file as they are written, but those of the kinds in `without`. Takes root, file, without. */}}
{{- define "accelet.written" -}}
{{- $without := .without | default list -}}
{{- $root := .root -}}
{{- $parts := dict "accelet-agent" "agent" "accelet-scheduler" "scheduler" "accelet-provisioner" "provisioner" "accelet-task-controller" "tasks" -}}
{{- range $text := regexSplit "(?m)^---$" (include "accelet.file" .) -1 }}
{{- $object := fromYaml $text -}}
{{- if and $object.kind (not (has $object.kind $without)) }}
{{- $part := ternary (get $parts (toString $object.metadata.name)) "" (eq $object.kind "ServiceAccount") }}
{{- if $part }}
{{- with (get $root.Values $part).accountAnnotations }}
{{- $_ := set $object.metadata "annotations" (merge (dict) . ($object.metadata.annotations | default dict)) }}
{{- $text = toYaml $object }}
{{- end }}
{{- end }}
---
{{ $text }}
{{- end }}
{{- end }}
{{- end }}

{{/* The object of a kind in a file, as YAML. Takes root, file, kind. */}}
{{- define "accelet.object" -}}
{{- $kind := .kind -}}
{{- range $text := regexSplit "(?m)^---$" (include "accelet.file" .) -1 }}
{{- $object := fromYaml $text -}}
{{- if eq (toString $object.kind) $kind }}
{{- toYaml $object }}
{{- end }}
{{- end }}
{{- end }}

{{/*
Lays `patch` over `into`, which is changed, as kustomize does with a strategic merge patch: mappings by their keys, lists of
volumes, containers and the like by their names, mounts by their paths, what is new of them first; all else is replaced.
*/}}
{{- define "accelet.merge" -}}
{{- $into := .into -}}
{{- range $key, $value := .patch -}}
{{- $there := get $into $key -}}
{{- if and (kindIs "map" $value) (kindIs "map" $there) -}}
{{- include "accelet.merge" (dict "into" $there "patch" $value) -}}
{{- else if and (kindIs "slice" $value) (kindIs "slice" $there) (kindIs "map" (first $value)) (or (hasKey (first $value) "name") (hasKey (first $value) "mountPath")) -}}
{{- $by := ternary "mountPath" "name" (hasKey (first $value) "mountPath") -}}
{{- $new := list -}}
{{- range $item := $value -}}
{{- $same := "" -}}
{{- range $old := $there -}}
{{- if eq (get $old $by) (get $item $by) -}}{{- $same = $old -}}{{- end -}}
{{- end -}}
{{- if $same -}}
{{- include "accelet.merge" (dict "into" $same "patch" $item) -}}
{{- else -}}
{{- $new = append $new $item -}}
{{- end -}}
{{- end -}}
{{- $_ := set $into $key (concat $new $there) -}}
{{- else -}}
{{- $_ := set $into $key $value -}}
{{- end -}}
{{- end -}}
{{- end }}

{{- define "accelet.image" -}}
{{- $_ := required "image.repository: name the image where your nodes can pull it, --set image.repository=registry.example.com/accelet (make image, docs/operating.md)" .Values.image.repository -}}
{{- if .Values.image.digest -}}
{{ .Values.image.repository }}@{{ .Values.image.digest }}
{{- else -}}
{{ .Values.image.repository }}:{{ .Values.image.tag | default .Chart.AppVersion }}
{{- end -}}
{{- end }}

{{/* Changes a pod's spec by the image and by what all parts have values for. Takes root, pod, values. */}}
{{- define "accelet.pod" -}}
{{- $container := first .pod.containers -}}
{{- $_ := set $container "image" (include "accelet.image" .root) -}}
{{- $_ := set $container "imagePullPolicy" .root.Values.image.pullPolicy -}}
{{- if .values.resources -}}{{- $_ := set $container "resources" .values.resources -}}{{- end -}}
{{- if .root.Values.image.pullSecrets -}}
{{- $secrets := list -}}
{{- range .root.Values.image.pullSecrets -}}{{- $secrets = append $secrets (dict "name" .) -}}{{- end -}}
{{- $_ := set .pod "imagePullSecrets" $secrets -}}
{{- end -}}
{{- if .values.nodeSelector -}}
{{- $_ := set .pod "nodeSelector" (merge (dict) .values.nodeSelector (.pod.nodeSelector | default dict)) -}}
{{- end -}}
{{- if .values.tolerations -}}{{- $_ := set .pod "tolerations" .values.tolerations -}}{{- end -}}
{{- include "accelet.merge" (dict "into" .pod "patch" (deepCopy .values.patch)) -}}
{{- end }}

{{/* Labels and annotations of pods, beside their own. Takes workload, values. */}}
{{- define "accelet.podMetadata" -}}
{{- $metadata := .workload.spec.template.metadata -}}
{{- with .values.podLabels -}}
{{- $_ := set $metadata "labels" (merge (dict) ($metadata.labels | default dict) .) -}}
{{- end -}}
{{- with .values.podAnnotations -}}
{{- $_ := set $metadata "annotations" (merge (dict) ($metadata.annotations | default dict) .) -}}
{{- end -}}
{{- end }}

{{/*
A configuration that waits for no policies where none are installed: nobody would ever lead, or follow an assignment. What
somebody wrote is refused in its place. Takes root, config, name.
*/}}
{{- define "accelet.unguarded" -}}
{{- $config := .config -}}
{{- if not (or .root.Values.policies.enabled .root.Values.policies.elsewhere) -}}
{{- $said := $config -}}
{{- if kindIs "string" $said -}}{{- $said = fromYaml $said -}}{{- end -}}
{{- if and $said.require_policies .isGiven -}}
{{- fail (printf "%s has require_policies: true, and policies.enabled is false: it would wait for ever. Set policies.elsewhere where others have installed them, else require_policies: false" .name) -}}
{{- end -}}
{{- if $said.require_policies -}}{{- $config = set $said "require_policies" false -}}{{- end -}}
{{- end -}}
{{- include "accelet.config" $config -}}
{{- end }}

{{/* A configuration: YAML as it is, or a mapping as YAML. */}}
{{- define "accelet.config" -}}
{{- if kindIs "string" . }}{{ . }}{{ else }}{{ toYaml . }}{{ end -}}
{{- end }}

{{/* A Deployment and its ConfigMap, which is read at start. Takes root, file, values. */}}
{{- define "accelet.controller" -}}
{{- $map := include "accelet.object" (dict "root" .root "file" .file "kind" "ConfigMap") | fromYaml -}}
{{- $deployment := include "accelet.object" (dict "root" .root "file" .file "kind" "Deployment") | fromYaml -}}
{{- if .values.config -}}
{{- $_ := set $map.data "config.yaml" (include "accelet.config" .values.config) -}}
{{- end -}}
{{- if .guards -}}
{{- $said := include "accelet.unguarded" (dict "root" .root "config" (get $map.data "config.yaml") "isGiven" .values.config "name" .guards) -}}
{{- $_ := set $map.data "config.yaml" $said -}}
{{- end -}}
{{- $_ := set $deployment.spec "replicas" .values.replicas -}}
{{- $_ := set $deployment.spec.template.metadata.annotations "checksum/config" (sha256sum (get $map.data "config.yaml")) -}}
{{- include "accelet.pod" (dict "root" .root "pod" $deployment.spec.template.spec "values" .values) -}}
{{- include "accelet.podMetadata" (dict "workload" $deployment "values" .values) -}}
---
{{ toYaml $map }}
---
{{ toYaml $deployment }}
{{- end }}
