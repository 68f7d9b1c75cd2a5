{{/*
What every template here is made of. manifests/ are links to the files of deploy/, or in a package those files: what is
installed is written there, and the templates say only what of it is switched on, and what values change.
*/}}

{{/* The objects of a file as they are written, but those of the kinds in `without`. Takes root, file, without. */}}
{{- define "accelet.written" -}}
{{- $without := .without | default list -}}
{{- range $text := regexSplit "(?m)^---$" (.root.Files.Get (printf "manifests/%s" .file) | required .file) -1 }}
{{- $object := fromYaml $text -}}
{{- if and $object.kind (not (has $object.kind $without)) }}
---
{{ $text }}
{{- end }}
{{- end }}
{{- end }}

{{/* The object of a kind in a file, as YAML. Takes root, file, kind. */}}
{{- define "accelet.object" -}}
{{- $kind := .kind -}}
{{- range $text := regexSplit "(?m)^---$" (.root.Files.Get (printf "manifests/%s" .file) | required .file) -1 }}
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
{{- $_ := set $deployment.spec "replicas" .values.replicas -}}
{{- $_ := set $deployment.spec.template.metadata.annotations "checksum/config" (sha256sum (get $map.data "config.yaml")) -}}
{{- include "accelet.pod" (dict "root" .root "pod" $deployment.spec.template.spec "values" .values) -}}
---
{{ toYaml $map }}
---
{{ toYaml $deployment }}
{{- end }}
