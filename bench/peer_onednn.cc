#include <unordered_map>

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
  OneDnnProduct(const Matrix& w_t, int64_t m, PeerType type, bool to_floats)
      : column_scales_(type == PeerType::kInt8 ? static_cast<size_t>(w_t.rows()) : 0,
                       1 / kInt8Scale) {
    const int64_t k = w_t.columns(), n = w_t.rows();
    const Types t = types_of(type, to_floats);
    dnnl::primitive_attr attributes, scaled;
    if (type == PeerType::kInt8) set_scales(attributes, scaled);
    const dnnl::memory::desc x({m, k}, t.x, Tag::ab), w({k, n}, t.w, Tag::any),
        y({m, n}, t.y, Tag::ab);
#if DNNL_VERSION_MAJOR >= 3
    primitive_description_ = dnnl::matmul::primitive_desc(engine(), x, w, y, attributes);
#else
    primitive_description_ = dnnl::matmul::primitive_desc({x, w, y}, attributes, engine());
#endif
    primitive_ = dnnl::matmul(primitive_description_);
    dnnl::memory plain({{k, n}, Type::f32, Tag::ba}, engine(), const_cast<float*>(w_t.data()));
    weights_ = dnnl::memory(primitive_description_.weights_desc(), engine());
    reorder(plain, scaled, type);
  }

  void apply(const void* x, void* y) const override {
    const dnnl::memory from(primitive_description_.src_desc(), engine(), const_cast<void*>(x));
    const dnnl::memory to(primitive_description_.dst_desc(), engine(), y);
    std::unordered_map<int, dnnl::memory> arguments = {
        {DNNL_ARG_SRC, from}, {DNNL_ARG_WEIGHTS, weights_}, {DNNL_ARG_DST, to}};
#if DNNL_VERSION_MAJOR >= 3
    if (!column_scales_.empty()) {
      arguments.insert({DNNL_ARG_ATTR_SCALES | DNNL_ARG_WEIGHTS, scales(column_scales_)});
    }
#endif
    primitive_.execute(stream_, arguments);
    stream_.wait();
  }

 private:
  static constexpr float kInt8Scale = 1000.0f;

  // Since release 3, the values of scales are arguments of the primitives.
  void set_scales(dnnl::primitive_attr& of_product, dnnl::primitive_attr& of_reorder) const {
    constexpr int kEachColumn = 2;
#if DNNL_VERSION_MAJOR >= 3
    of_product.set_scales_mask(DNNL_ARG_WEIGHTS, kEachColumn);
    of_reorder.set_scales_mask(DNNL_ARG_SRC, 0);
#else
    of_product.set_output_scales(kEachColumn, column_scales_);
    of_reorder.set_output_scales(0, {kInt8Scale});
#endif
  }
#if DNNL_VERSION_MAJOR >= 3
  static dnnl::memory scales(const std::vector<float>& values) {
    return dnnl::memory({{static_cast<int64_t>(values.size())}, Type::f32, Tag::x}, engine(),
                        const_cast<float*>(values.data()));
  }
#endif
  void reorder(dnnl::memory& plain, const dnnl::primitive_attr& scaled, PeerType type) {
    const dnnl::reorder primitive(plain, weights_, scaled);
    std::unordered_map<int, dnnl::memory> arguments = {{DNNL_ARG_FROM, plain},
                                                       {DNNL_ARG_TO, weights_}};
#if DNNL_VERSION_MAJOR >= 3
    const std::vector<float> scale = {kInt8Scale};
    if (type == PeerType::kInt8) {
      arguments.insert({DNNL_ARG_ATTR_SCALES | DNNL_ARG_SRC, scales(scale)});
    }
#else
    (void)type;  // the reorder has its scale already
#endif
    primitive.execute(stream_, arguments);
    stream_.wait();
  }

  std::vector<float> column_scales_;  // [N], empty unless the product is int8
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
