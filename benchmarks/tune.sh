#!/bin/sh
# Run drpn tune for every model, all at once on one GPU: benchmarks/tune.sh DATA OUT.toml TRIALS [SETTING...]
#   benchmarks/tune.sh newsroom-50k tuned.toml 6 training.tce_steps=900
# OUT.toml gets a table for each model, for drpn compare --configs, and OUT.toml.trials the trials. The same command
# resumes a stopped search. OUT.toml.logs has a log per model.
set -u
here=$(dirname "$0")
data=$1 out=$2 trials=$3 sets=
shift 3
python=${PYTHON:-python}
export PYTHONPATH="$here/../src:${PYTHONPATH:-}" PYTHONUNBUFFERED=1
for setting in "$@"; do sets="$sets --set $setting"; done
logs="$out.logs"
mkdir -p "$logs"

tune() { # compiling would take longer than the training
    $python -m drpn.cli tune "$data" --model "$1" --out "$out" --trials "$trials" \
        --set training.compile=false $sets > "$logs/$1.log" 2>&1 && grep -H "best *$" "$logs/$1.log" && return
    echo "$1: $(tail -n 1 "$logs/$1.log")"
    touch "$logs/failed"
}

rm -f "$logs/failed"
for model in $($python -c "from drpn.models.catalogue import CATALOGUE; print(*CATALOGUE)"); do tune "$model" & done
wait
test ! -e "$logs/failed"
