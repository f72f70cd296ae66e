#!/bin/sh
# drpn tune for every model, all at once on one GPU: benchmarks/tune.sh DATA OUT TRIALS [SETTING...]
#   benchmarks/tune.sh newsroom-50k configs/compare 6 training.tce_steps=900
# OUT gets a NAME.toml for each, for drpn compare --configs, and beside it the trials: the same command goes on.
set -u
here=$(dirname "$0")
data=$1 out=$2 trials=$3
shift 3
python=${PYTHON:-python}
export PYTHONPATH="$here/../src:${PYTHONPATH:-}" PYTHONUNBUFFERED=1
for setting in "$@"; do sets="${sets:-} --set $setting"; done
mkdir -p "$out"
for model in $($python -c "from drpn.models.catalogue import CATALOGUE; print(*CATALOGUE)"); do
    # compiling would take longer than the training
    $python -m drpn.cli tune "$data" --model "$model" --out "$out/$model.toml" --trials "$trials" \
        --set training.compile=false ${sets:-} > "$out/$model.log" 2>&1 || echo "$model: $(tail -n 1 "$out/$model.log")" &
done
wait
grep -h "^#.*best" "$out"/*.toml
