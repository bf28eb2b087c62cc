"""The main job against SGLang itself, on a CPU.

`build` sets the engine up: SGLang's own wheel with everything that is not CUDA, in a cache folder,
and two tiny models trained there. Only SGLang's compiled CPU kernels are on no package registry;
`standin/` takes their place, in plain PyTorch. Scheduler, arguments, HTTP, logs, metrics and
speculative workers are SGLang's own. Good for what SGLang says and does, not for how fast it is.
"""
