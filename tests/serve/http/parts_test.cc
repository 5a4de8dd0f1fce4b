// Tests the parts of the server that need no socket.

#include <gtest/gtest.h>
#include <nlohmann/json.hpp>

#include "serve/http/access_log.h"
#include "serve/http/http_text.h"
#include "serve/http/response_queue.h"

namespace neuronmm::serve {
namespace {

TEST(ResponseQueue, WakesTheReaderOncePerTakeAndAtAnOverflow) {
  int wakes = 0;
  ResponseQueue queue(10, [&] { ++wakes; });
  queue.event("1234");
  queue.event("5678");
  EXPECT_EQ(wakes, 1);
  EXPECT_EQ(queue.take().events, "12345678");
  queue.event("1234567890");
  EXPECT_EQ(wakes, 2);
  queue.event("x");
  EXPECT_EQ(wakes, 3);
  EXPECT_TRUE(queue.overflowed());
  EXPECT_TRUE(queue.take().overflowed);
  EXPECT_TRUE(queue.take().overflowed);
}

TEST(AccessLog, LineIsValidJsonForAnyPath) {
  AccessRecord record;
  record.path = "/a\"\n\xff";
  record.status = 404;
  const std::string line = access_line(record, 0.0015);
  EXPECT_EQ(line.find('\n'), line.size() - 1);
  const auto json = nlohmann::json::parse(line);
  EXPECT_EQ(json["time"], "1970-01-01T00:00:00.001Z");
  EXPECT_EQ(json["path"], "/a\"\n\xEF\xBF\xBD");
  EXPECT_EQ(json["status"], 404);
}

TEST(HttpText, RoutesAreFoundByPathAndMethod) {
  EXPECT_EQ(normalized_path("/health?x=/y"), "/health");
  EXPECT_EQ(find_route("GET", "/healthy").error().status, 404);
  EXPECT_EQ(find_route("HEAD", "/health")->endpoint, Endpoint::kHealth);
  EXPECT_EQ(find_route("HEAD", "/v1/completions").error().status, 405);
}

TEST(HttpText, EqualPathsAreRecognizedInAllSpellings) {
  for (const char* target :
       {"/v1/models", "/v1/models/", "//v1//models//", "/v1/models/?limit=/3", "/%76%31/mode%6Cs",
        "http://host:8000/v1/models", "HTTPS://host/v1//models/", "/v1/models?next=http://x/"}) {
    EXPECT_EQ(normalized_path(target), "/v1/models") << target;
  }
  for (const char* target : {"/", "//", "///?x", "http://host", "http://host?x=/y", "http://host/"})
    EXPECT_EQ(normalized_path(target), "/") << target;
  // The following paths are not other spellings of a known path and stay unchanged.
  for (const char* target :
       {"/v1%2Fmodels", "/v1/%zz", "/v1/%", "/v1/%4", "/v1/../models", "*", ""})
    EXPECT_EQ(normalized_path(target), target);
  EXPECT_EQ(model_in_path(normalized_path("/v1/models/org%2F%64emo/")), "org/demo");
  EXPECT_EQ(model_in_path(normalized_path("/v1/models/%2564emo")), "%64emo");
}

}  // namespace
}  // namespace neuronmm::serve
