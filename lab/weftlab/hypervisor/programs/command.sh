#!/bin/sh
# A command of Ironic's to the agent, as a CGI program: of a rescue the hash of a password, for the user `rescue`.
# Source: ironic-python-agent 11, `extensions/rescue.py`, `api/app.py`.
body=$(head -c "${CONTENT_LENGTH:-0}")
answer() { printf 'Content-Type: application/json\r\n\r\n{"id": "1", "command_name": "finalize_rescue", "command_params": {}, "command_result": null, "command_status": "%s", "command_error": %s}' "$1" "$2"; }
hash=$(echo "$body" | sed -n 's/.*"rescue_password": *"\([^"]*\)".*/\1/p')
case "$QUERY_STRING" in *"agent_token=$(cat /run/token)"*) ;; *) hash= ;; esac
case "$body" in *'"rescue.finalize_rescue"'*'"hashed": true'*) ;; *) hash= ;; esac
if [ -z "$hash" ]; then
    answer FAILED '{"type": "RESTError", "message": "no such command, or not by Ironic", "code": 400}'
    exit
fi
echo "rescue:x:0:0:rescue:/root:/bin/sh" >> /etc/passwd
echo "rescue:$hash:19000:0:99999:7:::" >> /etc/shadow
touch /run/rescued
answer SUCCEEDED null
