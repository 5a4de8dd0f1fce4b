#pragma once
// The library nlohmann_json with another destructor. All of our code gets it, because this folder
// comes before the library's own in the search for headers.
//
// The library's destructor moves all members of a value into a list, so that it needs no recursion.
// If there is no memory for the list, the program ends, because no exception may leave a
// destructor. The functions here free the members recursively and allocate nothing. Values are
// therefore never nested deeply: io/json_file.h refuses such texts.
#pragma GCC system_header  // #include_next is an extension

#include <memory>

#include_next <nlohmann/json.hpp>

namespace neuronmm::io {

template <typename Value>
void free_value(Value* value) {
  if (value == nullptr) return;
  std::destroy_at(value);
  std::allocator<Value>().deallocate(value, 1);
}

template <typename Union>
void free_members(Union& value, nlohmann::detail::value_t type) {
  if (type == nlohmann::detail::value_t::object) free_value(value.object);
  if (type == nlohmann::detail::value_t::array) free_value(value.array);
  if (type == nlohmann::detail::value_t::string) free_value(value.string);
  if (type == nlohmann::detail::value_t::binary) free_value(value.binary);
}

}  // namespace neuronmm::io

namespace nlohmann {

template <>
inline void json::json_value::destroy(detail::value_t type) {
  neuronmm::io::free_members(*this, type);
}

template <>
inline void ordered_json::json_value::destroy(detail::value_t type) {
  neuronmm::io::free_members(*this, type);
}

}  // namespace nlohmann
