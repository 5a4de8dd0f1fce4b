#include "command_lines.h"

namespace neuronmm::faults {
namespace {

constexpr Command kCommands[] = {
    {.name = "Synthesize",
     .arguments = "synthesize --config ../in/config.json -o out --json o.json",
     .outputs = "out o.json"},
    {.name = "SynthesizeInNewFolder",
     .arguments = "synthesize --config ../in/config.json -o new/deep/out",
     .outputs = "new/deep/out"},
    {.name = "SynthesizeRounded",
     .arguments = "synthesize --config ../in/config.json -o out --bits 4",
     .outputs = "out"},
    {.name = "SynthesizeReplaces",
     .arguments = "synthesize --config ../in/config.json -o out --force",
     .outputs = "out",
     .replaces = true},
    {.name = "Demo", .arguments = "demo -o out", .outputs = "out"},
    {.name = "Import",
     .arguments = "import ../in/m.gguf -o out --json o.json",
     .outputs = "out o.json"},
    {.name = "ImportReplaces",
     .arguments = "import ../in/m.gguf -o out --dtype f32 --force",
     .outputs = "out",
     .replaces = true},
    {.name = "ImportVocabulary",
     .arguments = "import ../in/vocabulary.gguf -o out",
     .outputs = "out"},
    {.name = "ImportRounds", .arguments = "import ../in/m.gguf -o out --bits 4", .outputs = "out"},
    {.name = "ImportRoundsReplaces",
     .arguments = "import ../in/m.gguf -o out --bits 8 --force",
     .outputs = "out",
     .replaces = true},
    {.name = "ImportWithAdapter",
     .arguments = "import ../in/model --adapter ../in/adapter -o out --json o.json",
     .outputs = "out o.json"},
    {.name = "QuantizeOfGguf",
     .arguments = "quantize ../in/m.gguf -o out --bits 8",
     .outputs = "out"},
    {.name = "CompressSvd",
     .arguments = "compress ../in/model -o out --ratio 0.5 --block 8 --method svd --json o.json",
     .outputs = "out o.json"},
    {.name = "CompressWhitened",
     .arguments = "compress ../in/model -o out --form uv --ratio 0.5 --block 8 --calibration "
                  "../in/text.txt --calibration-tokens 200",
     .outputs = "out"},
    {.name = "CompressMixed",
     .arguments =
         "compress ../in/model -o out --form mixed --method whitened --ratio 0.4 --block 8 "
         "--calibration ../in/text.txt --calibration-tokens 200",
     .outputs = "out"},
    {.name = "CompressPivotedInt8",
     .arguments = "compress ../in/model -o out --form pivoted --method whitened "
                  "--ratio 0.4 --block 8 --bits 8 --calibration ../in/text.txt "
                  "--calibration-tokens 200",
     .outputs = "out"},
    {.name = "CompressReconstructs",
     .arguments =
         "compress ../in/model -o out --form mixed --method whitened --ratio 0.4 --block 8 --bits "
         "8 "
         "--calibration ../in/text.txt --calibration-tokens 200 --reconstruct 200 --json o.json",
     .outputs = "out o.json"},
    {.name = "CompressSavesStatistics",
     .arguments =
         "compress ../in/model -o out --form mixed --method whitened --ratio 0.4 --block 8 "
         "--calibration ../in/text.txt --calibration-tokens 200 --statistics statistics",
     .outputs = "out",
     .keeps = "statistics statistics.partial"},
    {.name = "CompressUvMeasured",
     .arguments =
         "compress ../in/model -o out --ratio 0.25 --block 4 --form uv --allocate measured "
         "--calibration ../in/text.txt --calibration-tokens 200",
     .outputs = "out"},
    {.name = "CompressInt4Replaces",
     .arguments = "compress ../in/model -o out --ratio 0.5 --block 8 --method svd --bits 4 --force",
     .outputs = "out",
     .replaces = true},
    {.name = "CompressWritesItsText",
     .arguments = "compress ../in/model -o out --ratio 0.4 --block 8 --form neurons --method "
                  "whitened --self-generated 64",
     .outputs = "out"},
    {.name = "CompressTwoSided",
     .arguments = "compress ../in/model -o out --form neurons --method two-sided --allocate "
                  "predicted --ratio 0.4 --block 8 --calibration ../in/text.txt "
                  "--calibration-tokens 200",
     .outputs = "out"},
    {.name = "CompressDequantizes",
     .arguments = "compress ../in/eight -o out --dequantize --ratio 0.5 --block 8 --method svd",
     .outputs = "out"},
    {.name = "CompressOnProcesses",
     .arguments = "compress ../in/eight -o out --dequantize --form neurons --method whitened "
                  "--allocate uniform --ratio 0.4 --block 8 --calibration ../in/text.txt "
                  "--calibration-tokens 200",
     .outputs = "out",
     .needs = Needs::kMpirun},
    {.name = "CompressMixture",
     .arguments = "compress ../in/mixture -o out --form mixed --ratio 0.4 --block 8 "
                  "--calibration ../in/text.txt --calibration-tokens 200",
     .outputs = "out"},
    {.name = "Quantize",
     .arguments = "quantize ../in/small -o out --json o.json",
     .outputs = "out o.json"},
    {.name = "QuantizeReplaces",
     .arguments = "quantize ../in/small -o out --bits 4 --force",
     .outputs = "out",
     .replaces = true},
    {.name = "QuantizeByText",
     .arguments = "quantize ../in/model -o out --bits 4 --calibration ../in/text.txt "
                  "--calibration-tokens 200 --statistics statistics",
     .outputs = "out",
     .keeps = "statistics statistics.partial"},
    {.name = "QuantizeDequantizes",
     .arguments = "quantize ../in/eight -o out --bits 4 --dequantize",
     .outputs = "out"},
    {.name = "QuantizeDequantizesReplaces",
     .arguments = "quantize ../in/eight -o out --bits 4 --dequantize --force",
     .outputs = "out",
     .replaces = true},
    {.name = "Fit",
     .arguments = "fit ../in/model -o out --bytes 105K --block 8 --calibration ../in/text.txt "
                  "--calibration-tokens 400 --json o.json --html o.html",
     .outputs = "out o.json o.html",
     .keeps = "out.fit",
     .late_report = true,
     .same_bytes = false},
    {.name = "FitReplaces",
     .arguments = "fit ../in/model -o out --bytes 105K --block 8 --calibration ../in/text.txt "
                  "--calibration-tokens 400 --sensitivities measured --force",
     .outputs = "out",
     .keeps = "measured",
     .replaces = true,
     .same_bytes = false},
    {.name = "Finetune",
     .arguments = "finetune ../in/small -o out --data ../in/text.txt --batch 4 --cutoff 32 --json "
                  "o.json",
     .outputs = "out o.json"},
    {.name = "FinetuneReplaces",
     .arguments = "finetune ../in/small -o out --data ../in/text.txt --tokens 64 --batch 2 "
                  "--cutoff 16 --learning-rate 1e-4 --bits 8 --force",
     .outputs = "out",
     .replaces = true},
    {.name = "FinetuneResumes",
     .arguments = "finetune ../in/small -o out --data ../in/text.txt --tokens 64 --batch 2 "
                  "--cutoff 16 --learning-rate 1e-4 --resume",
     .outputs = "out"},
    {.name = "FinetuneWritesAnAdapter",
     .arguments = "finetune ../in/model -o out --data ../in/text.txt --tokens 64 --batch 2 "
                  "--cutoff 16 --learning-rate 1e-4 --lora 2",
     .outputs = "out"},
    {.name = "Export",
     .arguments = "export ../in/small --target vllm-neuron -o out --prompt Hi --prompt-tokens 32 "
                  "--new-tokens 2 --json o.json",
     .outputs = "out o.json"},
    {.name = "ExportNxdi",
     .arguments = "export ../in/small --target nxdi -o out --prompt Hi --prompt-tokens 32 "
                  "--new-tokens 2",
     .outputs = "out"},
    {.name = "ExportPadded",
     .arguments = "export ../in/small --target padded -o out --json o.json",
     .outputs = "out o.json"},
    {.name = "ExportPaddedReplaces",
     .arguments = "export ../in/small --target padded -o out --force",
     .outputs = "out",
     .replaces = true},
    {.name = "ExportGguf",
     .arguments = "export ../in/model --target gguf -o out.gguf --json o.json",
     .outputs = "out.gguf o.json",
     .refuses = true},
    {.name = "ExportGgufOfCompressed",
     .arguments = "export ../in/small --target gguf -o out.gguf --type BF16 --force",
     .outputs = "out.gguf"},
    {.name = "ExportGgufByText",
     .arguments = "export ../in/model --target gguf -o out.gguf --type Q4_0 --calibration "
                  "../in/text.txt --calibration-tokens 200 --statistics statistics",
     .outputs = "out.gguf",
     .keeps = "statistics statistics.partial",
     .refuses = true},
    {.name = "Tune",
     .arguments = "tune xuv --shape 128,128,128,128 --cache cache/tilings.json --json o.json",
     .outputs = "cache/tilings.json o.json"},
    {.name = "Emit",
     .arguments = "emit xuv --shape 128,128,128,128 -o xuv.py --cache cache/tilings.json --json "
                  "o.json",
     .outputs = "xuv.py o.json",
     .refuses = true},
    {.name = "EmitReplaces",
     .arguments = "emit xuv --shape 128,128,128,128 -o xuv.py --tiling auto --cache "
                  "cache/tilings.json --force",
     .outputs = "xuv.py cache/tilings.json"},
    {.name = "Simulate",
     .arguments = "simulate xuv --shape 128,128,128,128 --tiling auto --cache cache/tilings.json "
                  "--trace t.json --json o.json",
     .outputs = "cache/tilings.json t.json o.json"},
    {.name = "NkiStoredTrace",
     .arguments = "nki --from-trace ../in/matmul.trace --json o.json --html o.html --trace t.json "
                  "--save-trace saved.trace",
     .outputs = "o.json o.html t.json saved.trace"},
    {.name = "NkiKernel",
     .arguments = "nki ../in/double.py:double --arg x=fp32[128,4] --values --json o.json "
                  "--save-trace saved.trace --save-outputs y.npy",
     .outputs = "o.json saved.trace y.npy",
     .needs = Needs::kPython},
    {.name = "NkiSweep",
     .arguments = "nki ../in/double.py:double --arg x=fp32[128,4] --sweep TIMES=1,2 --json o.json",
     .outputs = "o.json",
     .needs = Needs::kPython},
    {.name = "NkiBaseline",
     .arguments = "nki --from-trace ../in/matmul.trace --baseline ../in/baseline.json --expect-us "
                  "1000 --json o.json",
     .outputs = "o.json"},
    {.name = "Perplexity",
     .arguments = "perplexity ../in/model ../in/text.txt --json o.json",
     .outputs = "o.json",
     .same_bytes = false},
    {.name = "Eval",
     .arguments = "eval ../in/model --data ../in --tasks ptb --limit 1 --json o.json --log-samples "
                  "o.jsonl",
     .outputs = "o.json o.jsonl",
     .same_bytes = false},
    {.name = "Compare",
     .arguments = "compare ../in/model ../in/small --data ../in --tasks ptb --limit 1 "
                  "--prompt-tokens 4 --new-tokens 2 --runs 1 --html o.html --json o.json",
     .outputs = "o.html o.json",
     .same_bytes = false},
    {.name = "Bench",
     .arguments = "bench ../in/model --prompt-tokens 4 --new-tokens 2 --runs 1 --json o.json",
     .outputs = "o.json",
     .same_bytes = false},
    {.name = "Check",
     .arguments = "check ../in/model --prompt Hi --new-tokens 2 --reference ../in/model --json "
                  "o.json --save-reference golden.safetensors",
     .outputs = "o.json golden.safetensors"},
    {.name = "Inspect", .arguments = "inspect ../in/small --json o.json", .outputs = "o.json"},
    {.name = "Tokenize",
     .arguments = "tokenize ../in/model Once --json o.json",
     .outputs = "o.json"},
    {.name = "Kernels", .arguments = "kernels xuv --json o.json", .outputs = "o.json"},
    {.name = "Paper",
     .arguments = "paper blocks --json o.json --svg o.svg",
     .outputs = "o.json o.svg"},
    {.name = "ChatSave",
     .arguments = "chat ../in/model --greedy --max-new-tokens 4",
     .outputs = "o.json",
     .input = "One day\n/save o.json\n"},
};

}  // namespace

std::span<const Command> commands() { return kCommands; }

}  // namespace neuronmm::faults
