"""neuronmm: low-rank compression and fast inference of large language models on the CPU.

    import neuronmm

    neuronmm.compress("Llama-3.2-1B", "small", ratio=0.2, calibration="some_text.txt")
    llm = neuronmm.LLM("small")
    params = neuronmm.SamplingParams(temperature=0.8, seed=1, max_tokens=40)
    print(llm.generate("The color of the sky is", params)[0].outputs[0].text)
"""

from importlib.metadata import version as _version

from ._native import Error
from .llm import LLM, Divergence, PerplexityReport
from .model_folders import (
    CompressedLayer,
    CompressedMatrix,
    CompressionReport,
    ImportReport,
    LearntLayer,
    MeasuredLoss,
    QuantizationReport,
    ReconstructionReport,
    compress,
    import_gguf,
    quantize,
)
from .outputs import CompletionOutput, Logprob, RequestOutput
from .sampling_params import SamplingParams
from .tokenizer import Tokenizer

__version__ = _version("neuronmm")
Error.__module__ = __name__

__all__ = [
    "LLM",
    "CompletionOutput",
    "CompressedLayer",
    "CompressedMatrix",
    "CompressionReport",
    "Divergence",
    "Error",
    "ImportReport",
    "LearntLayer",
    "Logprob",
    "MeasuredLoss",
    "PerplexityReport",
    "QuantizationReport",
    "ReconstructionReport",
    "RequestOutput",
    "SamplingParams",
    "Tokenizer",
    "compress",
    "import_gguf",
    "quantize",
]
