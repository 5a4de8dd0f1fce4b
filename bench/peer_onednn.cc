#include <oneapi/dnnl/dnnl.hpp>

#include "peers.h"

namespace neuronmm::bench {
namespace {

using Type = dnnl::memory::data_type;
using Tag = dnnl::memory::format_tag;

struct Types {
  Type x, w, y;
};

Types types_of(PeerType type, bool to_floats) {
  switch (type) {
    case PeerType::kFp32:
      return {Type::f32, Type::f32, Type::f32};
    case PeerType::kBf16:
      return {Type::bf16, Type::bf16, to_floats ? Type::f32 : Type::bf16};
    case PeerType::kInt8:
      break;
  }
  return {Type::u8, Type::s8, to_floats ? Type::f32 : Type::u8};
}

const dnnl::engine& engine() {
  static const dnnl::engine cpu(dnnl::engine::kind::cpu, 0);
  return cpu;
}

// A product by a matmul primitive, with the weight in the order that the primitive prefers. int8
// weights are the fp32 ones times kInt8Scale, which is good enough for times but not for values.
class OneDnnProduct final : public PeerProduct {
 public:
  OneDnnProduct(const Matrix& w_t, int64_t m, PeerType type, bool to_floats) {
    constexpr float kInt8Scale = 1000.0f;
    const int64_t k = w_t.columns(), n = w_t.rows();
    const Types t = types_of(type, to_floats);
    dnnl::primitive_attr attributes;
    if (type == PeerType::kInt8) {
      attributes.set_output_scales(2, std::vector<float>(static_cast<size_t>(n), 1 / kInt8Scale));
    }
    primitive_description_ = dnnl::matmul::primitive_desc(
        {{{m, k}, t.x, Tag::ab}, {{k, n}, t.w, Tag::any}, {{m, n}, t.y, Tag::ab}}, attributes,
        engine());
    primitive_ = dnnl::matmul(primitive_description_);
    dnnl::memory plain({{k, n}, Type::f32, Tag::ba}, engine(), const_cast<float*>(w_t.data()));
    weights_ = dnnl::memory(primitive_description_.weights_desc(), engine());
    dnnl::primitive_attr scaled;
    if (type == PeerType::kInt8) scaled.set_output_scales(0, {kInt8Scale});
    dnnl::reorder(plain, weights_, scaled).execute(stream_, plain, weights_);
    stream_.wait();
  }

  void apply(const void* x, void* y) const override {
    const dnnl::memory from(primitive_description_.src_desc(), engine(), const_cast<void*>(x));
    const dnnl::memory to(primitive_description_.dst_desc(), engine(), y);
    primitive_.execute(stream_,
                       {{DNNL_ARG_SRC, from}, {DNNL_ARG_WEIGHTS, weights_}, {DNNL_ARG_DST, to}});
    stream_.wait();
  }

 private:
  dnnl::matmul::primitive_desc primitive_description_;
  dnnl::matmul primitive_;
  dnnl::memory weights_;
  mutable dnnl::stream stream_{engine()};
};

class OneDnn final : public Peer {
 public:
  explicit OneDnn(PeerType type) : type_(type) {}
  std::string name() const override {
    return type_ == PeerType::kFp32   ? "oneDNN fp32"
           : type_ == PeerType::kBf16 ? "oneDNN bf16"
                                      : "oneDNN u8s8";
  }
  PeerType type() const override { return type_; }
  std::unique_ptr<PeerProduct> product(const Matrix& w_t, int64_t rows,
                                       bool to_floats) const override {
    return std::make_unique<OneDnnProduct>(w_t, rows, type_, to_floats);
  }

 private:
  PeerType type_;
};

}  // namespace

std::vector<std::unique_ptr<Peer>> onednn_peers() {
  std::vector<std::unique_ptr<Peer>> peers;
  for (const PeerType type : {PeerType::kFp32, PeerType::kBf16, PeerType::kInt8}) {
    peers.push_back(std::make_unique<OneDnn>(type));
  }
  return peers;
}

}  // namespace neuronmm::bench
