#!/usr/bin/env bash
# Prometheus 2.42 doesn't fill in `authorization: type` of `http_sd_configs`: with `credentials_file` alone, as the
# documentation has it ("type: default Bearer"), the header it sends has no scheme, and the service answers 401.
#
# Version:   prometheus 2.42.0 (Debian 12)
# Expected:  `Authorization: Bearer TOKEN`, as scrape_configs send it without a type; promtool check config warns otherwise.
# Behaviour: the header is the bare token; promtool accepts the configuration. With `type: Bearer` written out it
#            is right.
set -euo pipefail
tmp=$(mktemp -d)
pids=()
trap 'kill "${pids[@]}" 2>/dev/null || true; rm -rf "$tmp"' EXIT
printf secret >"$tmp/token"
cat >"$tmp/server.py" <<'PY'
import http.server, sys
class Handler(http.server.BaseHTTPRequestHandler):
    def do_GET(self):
        with open(sys.argv[1], "a") as log:
            log.write(f"{self.path} {self.headers.get('authorization')!r}\n")
        self.send_response(200); self.send_header("content-type", "application/json"); self.end_headers()
        self.wfile.write(b"[]")
    def log_message(self, *a): pass
server = http.server.HTTPServer(("127.0.0.1", 0), Handler)
print(server.server_port, flush=True)
server.serve_forever()
PY
python3 "$tmp/server.py" "$tmp/log" >"$tmp/port" & pids+=($!)
for _ in $(seq 50); do [ -s "$tmp/port" ] && break; sleep 0.1; done
url=http://127.0.0.1:$(cat "$tmp/port")
cat >"$tmp/prometheus.yml" <<YML
scrape_configs:
- job_name: bare
  http_sd_configs: [{url: "$url/bare", refresh_interval: 1s, authorization: {credentials_file: "$tmp/token"}}]
- job_name: typed
  http_sd_configs: [{url: "$url/typed", refresh_interval: 1s, authorization: {type: Bearer, credentials_file: "$tmp/token"}}]
YML
promtool check config "$tmp/prometheus.yml" >/dev/null
prometheus --config.file="$tmp/prometheus.yml" --storage.tsdb.path="$tmp/data" --web.listen-address=127.0.0.1:25990 --log.level=error & pids+=($!)
for _ in $(seq 100); do grep -q typed "$tmp/log" 2>/dev/null && grep -q bare "$tmp/log" && break; sleep 0.1; done
sort -u "$tmp/log"
grep -q "/typed 'Bearer secret'" "$tmp/log" && ! grep -q "/bare 'Bearer secret'" "$tmp/log" || { echo "the behaviour has changed" >&2; exit 1; }
