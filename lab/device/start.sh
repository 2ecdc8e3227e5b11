# start.sh [CPU]: unpack the packages, start two workers for the GPU jobs, and the script CPU on all cores but two
export K=/root/k; rm -rf $K; mkdir -p $K/site $K/out $K/jobs $K/running
for wheel in build/kit/*.whl; do python3 -m zipfile -e $wheel $K/site; done
tar xzf build/kit/extra.tgz -C $K/site; cp -r build/kit/*.dist-info $K/site/
mkdir $K/tree; cp -r src lab pyproject.toml $K/tree/; cp build/jobs/* $K/jobs/
cd $K/tree
export PYTHONPATH=$K/tree/src:$K/site SDL_VIDEODRIVER=dummy PYTHONUNBUFFERED=1 XLA_PYTHON_CLIENT_PREALLOCATE=false
export JAX_COMPILATION_CACHE_DIR=$K/cache JAX_PERSISTENT_CACHE_MIN_COMPILE_TIME_SECS=1
nvidia-cuda-mps-control -d
for worker in a b; do setsid nohup bash lab/device/worker.sh $worker > /dev/null 2>&1 & done
if [ -n "$1" ]; then
  export OMP_NUM_THREADS=1 NUMBA_NUM_THREADS=1 JAX_PLATFORMS=cpu
  export XLA_FLAGS="--xla_cpu_multi_thread_eigen=false intra_op_parallelism_threads=1"
  setsid nohup nice -n 19 taskset -c 2-$(($(nproc) - 1)) bash $1 > $K/out/cpu.log 2>&1 &
fi
