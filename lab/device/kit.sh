# packages for Python 3.12 on the lent machine, as wheels that start.sh unpacks
set -e
rm -rf build/kit; mkdir -p build/kit build/wheels build/jobs
pip=.venv/bin/pip
$pip download -q --no-deps --python-version 312 --only-binary=:all: --platform manylinux2014_x86_64 \
  --platform manylinux_2_17_x86_64 --platform manylinux_2_28_x86_64 -c constraints.txt -d build/kit gymnasium \
  Farama-Notifications highway-env pygame-ce mo-gymnasium pandas Box2D cloudpickle typing_extensions minigrid python-dateutil \
  six tzdata
$pip install -q --no-deps --target build/wheels/extra minatar flappy-bird-gymnasium
rm -rf build/wheels/extra/flappy_bird_gymnasium/assets/{model,audio}
tar czf build/kit/extra.tgz -C build/wheels/extra --exclude __pycache__ --exclude '*.dist-info' .
cp -r .venv/lib/python3*/site-packages/rasf-*.dist-info build/kit/  # entry points: rasf_lab's commands and environments
du -sh build/kit
