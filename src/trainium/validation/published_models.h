#pragma once
// This file lists, as data, what is published of whole models that NeuronMM compressed: speed-ups,
// the times of one sample run, the accuracy that is lost, and perplexities. The figures end-to-end
// and quality of the `paper` command compare them with simulated times. What our own compressed
// models lose is measured, not simulated, and stands in docs/measurements/paper.md.

#include <string_view>

namespace neuronmm::validation {

// The speed-up of whole requests, dense over compressed: batch 1 on one core of trn1, bf16. The
// source is the README of the authors' repository of whole models (dinghongsong/NeuronMM, which was
// called SVD-Flash). The mean and range of these values are those of the abstract of arXiv
// 2510.25977, version 1. The lengths are those of the README's sample run: 32 input tokens and 64
// tokens in all.
struct PublishedRequest {
  std::string_view model;
  double ratio;  // The share of each MLP weight that is removed.
  double speedup;
};
inline constexpr PublishedRequest kPublishedRequests[] = {
    {.model = "Llama-3.2-1B", .ratio = 0.1, .speedup = 1.21},
    {.model = "Llama-3.2-1B", .ratio = 0.2, .speedup = 1.63},
    {.model = "Llama-3.2-3B", .ratio = 0.1, .speedup = 1.88},
    {.model = "Llama-3.2-3B", .ratio = 0.2, .speedup = 2.49},
    {.model = "Qwen3-1.7B", .ratio = 0.1, .speedup = 1.41},
    {.model = "Qwen3-1.7B", .ratio = 0.2, .speedup = 1.74},
    {.model = "Qwen3-4B", .ratio = 0.1, .speedup = 1.28},
    {.model = "Qwen3-4B", .ratio = 0.2, .speedup = 1.67}};

// The README's sample run: medians in milliseconds. Its later versions print the same times beside
// a command with --tp-degree 2, so that they may be those of two cores.
inline constexpr const char* kSampleModel = "Llama-3.2-1B";
inline constexpr double kSampleRatio = 0.2;
struct PublishedSample {
  double request, prefill, decode;
};
inline constexpr PublishedSample kPublishedDense = {
    .request = 1299.87, .prefill = 70.280, .decode = 39.082};
inline constexpr PublishedSample kPublishedLowRank = {
    .request = 893.82, .prefill = 66.628, .decode = 26.092};
// The second published decode time, in milliseconds: token_generation_model of
// benchmark_report.json in dinghongsong/NeuronMM. The file does not state the model.
inline constexpr double kPublishedDecodeOfUnstatedModel = 10.424;

// The mean accuracy (mAcc) of six tasks that a model loses, after whitening and LoRA. The source is
// third-party notes on the paper (3brown1blue, videos/neuronmm). The accuracies themselves are not
// public, and neither are the losses at ratio 0.1.
struct PublishedAccuracyLoss {
  std::string_view model;
  double ratio;
  double loss;
};
inline constexpr PublishedAccuracyLoss kPublishedAccuracyLosses[] = {
    {.model = "Llama-3.2-1B", .ratio = 0.2, .loss = 0.07},
    {.model = "Llama-3.2-3B", .ratio = 0.2, .loss = 0.10},
    {.model = "Qwen3-1.7B", .ratio = 0.2, .loss = 0.03},
    {.model = "Qwen3-4B", .ratio = 0.2, .loss = 0.05}};

// The range of gamma over the paper's models and ratios, by the same notes.
inline constexpr double kPublishedGammaLeast = 0.0324, kPublishedGammaMost = 0.2527;

// Perplexities of one compressed model. The source is wizwand's listing of version 4, which states
// neither the model nor the ratio.
struct PublishedPerplexity {
  std::string_view text;
  double value;
};
inline constexpr PublishedPerplexity kPublishedPerplexities[] = {
    {"WikiText-2", 8.56}, {"PTB", 11.43}, {"C4", 13.67}};

}  // namespace neuronmm::validation
