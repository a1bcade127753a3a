#!/bin/sh
# sh chain.sh MEASUREMENTS [--queue NAME]: on this machine or, with a queue, on the machines of TIDEMILL_PIPELINE.
items=${1:?Give a folder, a list or a prefix of measurements, such as examples/chain/measurements.}
shift
if [ $# -gt 0 ]; then verb=submit; else verb=run; fi
code=$(dirname "$0")
tidemill $verb "$@" --name features --code "$code" --items "$items" -- python3 preprocess.py {input} {output}
tidemill $verb "$@" --name model --code "$code" job://features/output -- python3 train.py {input} {output}
tidemill $verb "$@" --name accuracy --code "$code" --items job://features/output --input model=job://model/output \
    -- python3 evaluate.py {input} {model} {output}
