# collect.sh SECONDS: wait, tell what has ended, and copy all results so far to $OUT
K=/root/k; sleep $1
cat $K/out/gpu.log; tail -qn 2 $K/out/*.log | cut -c1-300; wc -l $K/out/*.jsonl; uptime
tar czf $OUT/out.tgz -C $K out
for folder in $K/*-runs; do [ -d $folder ] && tar czf $OUT/$(basename $folder).tgz -C $K --exclude '*.checkpoint' $(basename $folder); done
ls -la $OUT
