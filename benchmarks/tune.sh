#!/bin/sh
# drpn tune for every model, all at once on one GPU: benchmarks/tune.sh DATA OUT TRIALS [SETTING...]
#   benchmarks/tune.sh newsroom-50k tuned 6 training.tce_steps=900
# OUT gets a NAME.toml for each, for drpn compare --configs, and beside it the trials: the same command goes on.
set -u
here=$(dirname "$0")
data=$1 out=$2 trials=$3 sets=
shift 3
python=${PYTHON:-python}
export PYTHONPATH="$here/../src:${PYTHONPATH:-}" PYTHONUNBUFFERED=1
for setting in "$@"; do sets="$sets --set $setting"; done
mkdir -p "$out/logs"

one() { # compiling would take longer than the training
    log="$out/logs/$1.log"
    $python -m drpn.cli tune "$data" --model "$1" --out "$out/$1.toml" --trials "$trials" \
        --set training.compile=false $sets > "$log" 2>&1 && grep -H "best$" "$out/$1.toml" && return
    echo "$1: $(tail -n 1 "$log")"
    touch "$out/logs/failed"
}

rm -f "$out/logs/failed"
for model in $($python -c "from drpn.models.catalogue import CATALOGUE; print(*CATALOGUE)"); do one "$model" & done
wait
test ! -e "$out/logs/failed"
