#pragma once
// HTTP responses out of bytes, whoever reads them.

#include <boost/beast/http/basic_parser.hpp>

#include "serve/load/connection.h"

namespace neuronmm::load {

class ResponseParser : public boost::beast::http::basic_parser</*isRequest=*/false> {
 public:
  ResponseParser(ResponseHead& head, ResponseSink& sink) : head_(head), sink_(sink) {
    eager(true);
    body_limit(boost::none);  // streams have none; those who wait have a deadline
  }
  bool wanted() const { return wanted_; }  // false: the sink wants no more

 private:
  using Text = boost::beast::string_view;
  using Code = boost::beast::error_code;

  void on_request_impl(boost::beast::http::verb, Text, Text, int, Code&) override {}
  void on_response_impl(int status, Text, int, Code&) override { status_ = status; }
  void on_field_impl(boost::beast::http::field field, Text, Text value, Code&) override {
    if (field == boost::beast::http::field::content_type)
      head_.content_type.assign(value.data(), value.size());
  }
  // A head that breaks off says nothing.
  void on_header_impl(Code&) override { head_.status = status_; }
  void on_body_init_impl(const boost::optional<uint64_t>&, Code&) override {}
  size_t on_body_impl(Text body, Code&) override { return give(body); }
  void on_chunk_header_impl(uint64_t, Text, Code&) override {}
  size_t on_chunk_body_impl(uint64_t, Text body, Code&) override { return give(body); }
  void on_finish_impl(Code&) override {}

  size_t give(Text body) {
    wanted_ = wanted_ && sink_.body(head_, {body.data(), body.size()});
    return body.size();
  }

  ResponseHead& head_;
  ResponseSink& sink_;
  int status_ = 0;
  bool wanted_ = true;
};

}  // namespace neuronmm::load
