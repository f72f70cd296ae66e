#!/bin/sh
# Everything that is measured on a GPU, in less than eight minutes: benchmarks/gpu.sh [OUT]
# The tests of the kernels run first, beside the compiling that fills the compiler's cache; nothing is timed then.
set -u
here=$(dirname "$0")
out=${1:-$here/../build/bench}
python=${PYTHON:-python}
mkdir -p "$out"
export PYTHONPATH="$here/../src:$here/../tests:$here:${PYTHONPATH:-}" PYTHONUNBUFFERED=1

said() { echo; echo "== $(date +%T) $*"; }

said "a whole training, nothing compiled before"
$python "$here/full.py" --out "$out" || exit 1
said "tests, and compiling for the batch sizes"
for batch in 128 512 8192; do
    $python "$here/training.py" --models drpn --batches $batch --seconds 0.1 --out "$out/compiling-$batch" \
        > "$out/compiling-$batch.log" 2>&1 &
done
for part in "denoising or weighted or segment or short" "scores_and or gathered or fixed or bf16" "recorded or host"; do
    $python -m pytest -q -p no:cacheprovider -m gpu "$here/../tests/gpu" "$here/../tests/training/test_learning.py" \
        -k "$part" > "$out/compiling-tests-$(echo "$part" | cut -d" " -f1).log" 2>&1 &
done
wait
cat "$out"/compiling-tests-*.log > "$out/tests-cuda.log"
grep -E "^FAILED|^ERROR| passed| failed" "$out/tests-cuda.log"
rm -rf "$out"/compiling-*
said "ceilings"
$python "$here/ceilings.py" --out "$out" || exit 1
said "training"
$python "$here/training.py" --seconds 4 --out "$out" || exit 1
said "evaluation"
$python "$here/evaluation.py" --seconds 3 --shapes mind --out "$out" || exit 1
said "parts"
$python "$here/parts.py" --models drpn --out "$out" || exit 1
said "done"
