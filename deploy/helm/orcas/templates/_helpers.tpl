{{- define "orcas.selector" -}}
app.kubernetes.io/name: {{ .Chart.Name }}
app.kubernetes.io/instance: {{ .Release.Name }}
{{- end }}

{{- define "orcas.labels" -}}
{{ include "orcas.selector" . }}
app.kubernetes.io/version: {{ .Chart.AppVersion | quote }}
app.kubernetes.io/managed-by: {{ .Release.Service }}
{{- end }}

{{- define "orcas.secret" -}}
{{- if .Values.secrets }}{{ .Release.Name }}{{ else }}{{ .Values.existingSecret.name }}{{ end }}
{{- end }}
