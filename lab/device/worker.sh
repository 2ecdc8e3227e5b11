# worker.sh NAME: execute the scripts in $K/jobs in the order of their names, one after the other
while true; do
  job=$(ls $K/jobs | head -1)
  if [ -z "$job" ]; then sleep 2; continue; fi
  mv $K/jobs/$job $K/running/$job.$1 2> /dev/null || continue
  echo "$job begins $(date +%T)" >> $K/out/gpu.log
  bash $K/running/$job.$1 > $K/out/$job.log 2>&1
  echo "$job ends with $? $(date +%T)" >> $K/out/gpu.log
done
