"""Policy libraries: training, acting, evaluation, calibration and files."""
