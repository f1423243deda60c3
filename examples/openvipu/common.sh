# Sourced by the examples: a folder that goes away, and programs that end with the script.
set -euo pipefail
work=$(mktemp -d)
export HOME=$work
cd "$work"
pids=()

finish() {
  for pid in "${pids[@]}"; do kill "$pid" 2>/dev/null || true; done
  wait
  rm -rf "$work"
}
trap finish EXIT

# start LOGFILE PROGRAM ARGUMENTS...: returns when the program has printed its first line
start() {
  local log=$1
  shift
  "$@" >"$log" 2>&1 &
  pids+=($!)
  until [ -s "$log" ]; do
    kill -0 $! || { cat "$log"; exit 1; }
    sleep 0.1
  done
}

# port_of LOGFILE user|admin: the port that a controller got
port_of() {
  sed -n "s/.*$2 API on port \([0-9]*\).*/\1/p" "$1"
}

# add_agents FILE FROM TO: add these lines of the agents file with $admin
add_agents() {
  sed -n "$2,$3p" "$1" | while read -r name host port; do
    $admin create agent "$name" --host "$host" --port "$port"
  done
}

# order FILE FROM TO: a file for `vipu-admin apply` with these agents and the cluster c16 over them
order() {
  sed -n "$2,$3p" "$1" | awk '
    { agents = agents comma "{\"id\":\"" $1 "\",\"host\":\"" $2 "\",\"port\":" $3 "}"; names = names comma "\"" $1 "\""; comma = "," }
    END { print "{\"agents\":[" agents "],\"clusters\":[{\"id\":\"c16\",\"agents\":[" names "]}]}" }'
}

# names FILE FROM TO: the agents' names, comma-separated
names() {
  sed -n "$2,$3p" "$1" | cut -d' ' -f1 | paste -sd,
}

refused() {
  if "$@"; then
    echo "this should have been refused" >&2
    exit 1
  fi
}

free_ports=(--user-address 127.0.0.1:0 --admin-address 127.0.0.1:0 --no-metrics)
