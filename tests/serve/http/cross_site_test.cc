// Tests which requests of browsers the server refuses because they may come from pages of other
// sites: the decision alone, and over a socket.

#include "serve/http/cross_site.h"

#include <gmock/gmock.h>

#include "serve/http/served_demo.h"

namespace neuronmm::serve {
namespace {

// A request for a server without TLS.
RequestSource request(std::optional<std::string_view> host,
                      std::optional<std::string_view> origin = {}) {
  return {.target = "/v1/models", .host = host, .origin = origin, .content_type = {}};
}
RequestSource post(std::optional<std::string_view> origin, std::string_view content_type) {
  return {.target = "/v1/completions",
          .host = "localhost:8000",
          .origin = origin,
          .content_type = content_type,
          .has_body = true};
}

int status_of(const CrossSiteRules& rules, const RequestSource& source) {
  const auto fault = find_cross_site_fault(rules, source);
  return fault ? fault->status : 200;
}

TEST(CrossSite, TheMachineIsTrustedOnlyOnLoopbackWithoutKeys) {
  ServerOptions options;
  EXPECT_TRUE(cross_site_rules(options, /*on_loopback=*/true).trusts_machine);
  EXPECT_FALSE(cross_site_rules(options, /*on_loopback=*/false).trusts_machine);
  options.api_keys = {"key"};
  EXPECT_FALSE(cross_site_rules(options, /*on_loopback=*/true).trusts_machine);
}

TEST(CrossSite, HostsOfLoopbackAreTheServersOwn) {
  const CrossSiteRules rules = cross_site_rules({}, /*on_loopback=*/true);
  for (const char* host :
       {"localhost", "localhost:8000", "LocalHost:1", "localhost.", "localhost.:8000",
        "localhost:", "127.0.0.1", "127.0.0.1:8000", "127.1.2.3:80", "[::1]", "[::1]:8000",
        "[0:0:0:0:0:0:0:1]:8000", "[::ffff:127.0.0.1]:8000", "[::FFFF:7f00:1]"})
    EXPECT_EQ(status_of(rules, request(host)), 200) << host;
  EXPECT_EQ(status_of(rules, request({})), 200);  // HTTP/1.0
  for (const char* host : {"",
                           ":8000",
                           "evil.example",
                           "evil.example:8000",
                           "localhost.evil.example",
                           "127.0.0.1.evil",
                           "evil.example.",
                           "localhost..",
                           "xlocalhost",
                           "128.0.0.1",
                           "0.0.0.0:8000",
                           "10.0.0.1",
                           "192.168.1.2:8000",
                           "[::]",
                           "[::2]:8000",
                           "[::1",
                           "::1",
                           "[::1]x",
                           "[fe80::1%25lo]",
                           "[localhost]",
                           "[127.0.0.1]",
                           "localhost:80x",
                           "localhost:-1",
                           "localhost:8000:1",
                           "localhost:8000@evil.example",
                           "%6cocalhost",
                           "localhost%00.evil"})
    EXPECT_EQ(status_of(rules, request(host)), 403) << host;
}

TEST(CrossSite, AnyHostIsGoodWhereAKeyOrTheNetworkIsTheProtection) {
  const CrossSiteRules rules = cross_site_rules({}, /*on_loopback=*/false);
  for (const char* host :
       {"evil.example", "neuronmm.default.svc.cluster.local:8000", "10.0.0.1", ""})
    EXPECT_EQ(status_of(rules, request(host)), 200) << host;
}

TEST(CrossSite, AllowedHostsWidenTheServersNames) {
  ServerOptions options;
  options.host = "My-Machine";
  options.allowed_hosts = {"Example.ORG.", "[2001:DB8::0:1]", "192.168.1.2"};
  const CrossSiteRules rules = cross_site_rules(options, /*on_loopback=*/true);
  for (const char* host : {"example.org", "EXAMPLE.org:8000", "example.org.", "[2001:db8::1]:80",
                           "192.168.1.2:8000", "my-machine:8000", "localhost"})
    EXPECT_EQ(status_of(rules, request(host)), 200) << host;
  for (const char* host : {"a.example.org", "example.com", "192.168.1.3", "*"})
    EXPECT_EQ(status_of(rules, request(host)), 403) << host;
  options.allowed_hosts = {"*"};
  EXPECT_EQ(status_of(cross_site_rules(options, true), request("evil.example")), 200);
}

TEST(CrossSite, AWholeUrlInTheRequestLineNamesTheHost) {
  const CrossSiteRules rules = cross_site_rules({}, /*on_loopback=*/true);
  RequestSource source = request("localhost:8000");
  for (const auto& [target, status] : std::initializer_list<std::pair<const char*, int>>{
           {"http://localhost:8000/", 200},
           {"http://127.0.0.1", 200},
           {"/v1/models?next=http://evil.example/", 200},
           {"http://evil.example/", 403},
           {"http://evil.example", 403},
           {"HTTP://evil.example?x=/", 403},
           {"http://localhost@evil.example/", 403}}) {
    source.target = target;
    EXPECT_EQ(status_of(rules, source), status) << target;
  }
  source = request("evil.example");
  source.target = "http://localhost:8000/";
  EXPECT_EQ(status_of(rules, source), 403);
  // The page of the URL is the server's own.
  source = request("localhost:8000", "http://127.0.0.1:9");
  source.target = "http://127.0.0.1:9/v1/models";
  EXPECT_EQ(status_of(rules, source), 200);
}

TEST(CrossSite, ForeignOriginsAreRefusedWhereverTheServerListens) {
  for (const bool on_loopback : {false, true}) {
    ServerOptions options;
    options.api_keys = {"key"};
    const CrossSiteRules rules = cross_site_rules(options, on_loopback);
    for (const char* origin :
         {"http://localhost:8000", "https://localhost:8000", "http://LOCALHOST:8000"})
      EXPECT_EQ(status_of(rules, request("localhost:8000", origin)), 200) << origin;
    for (const char* origin :
         {"http://localhost", "http://localhost:8001", "https://evil.example", "null", "", "*",
          "localhost:8000", "http://localhost:8000@evil.example", "file://",
          "http://127.0.0.1:8000", "chrome-extension://localhost:8000",
          "http://localhost:8000.evil.example", "http://localhost:8000, http://localhost:8000",
          "http://localhost:80000000000"})
      EXPECT_EQ(status_of(rules, request("localhost:8000", origin)), 403) << origin;
  }
}

// The page's scheme decides the port that neither names. With a proxy in front, the page comes by
// https although the server speaks http.
TEST(CrossSite, PortsThatAreLeftOutAreThoseOfThePagesScheme) {
  const auto status = [](bool tls, const char* host, const char* origin) {
    return status_of({.origins = {}, .hosts = {}, .tls = tls}, request(host, origin));
  };
  EXPECT_EQ(status(false, "example.org", "https://example.org"), 200);
  EXPECT_EQ(status(false, "example.org:443", "https://example.org"), 200);
  EXPECT_EQ(status(false, "example.org", "http://example.org"), 200);
  EXPECT_EQ(status(false, "example.org:80", "http://example.org"), 200);
  EXPECT_EQ(status(false, "example.org:443", "http://example.org"), 403);
  EXPECT_EQ(status(false, "example.org", "https://example.org:8443"), 403);
  EXPECT_EQ(status(true, "example.org", "https://example.org"), 200);
  EXPECT_EQ(status(true, "example.org", "http://example.org"), 403);
  EXPECT_EQ(status(true, "[::1]:8000", "https://[0::1]:8000"), 200);
}

TEST(CrossSite, CorsOriginsAreNotForeign) {
  ServerOptions options;
  options.cors_origins = {"https://good.example", "null"};
  CrossSiteRules rules = cross_site_rules(options, /*on_loopback=*/true);
  for (const char* origin : {"https://good.example", "null"})
    EXPECT_EQ(status_of(rules, request("localhost", origin)), 200) << origin;
  for (const char* origin :
       {"http://good.example", "https://good.example:444", "https://bad.example"})
    EXPECT_EQ(status_of(rules, request("localhost", origin)), 403) << origin;
  rules.origins = {"*"};
  EXPECT_EQ(status_of(rules, request("localhost", "https://any.example")), 200);
  EXPECT_EQ(status_of(rules, request("evil.example", "http://evil.example")), 403);
}

// Browsers send these bodies without asking the server first, so that no preflight protects it.
TEST(CrossSite, FormsAndTextWithAnOriginAreRefusedWithoutAKey) {
  ServerOptions options;
  options.cors_origins = {"*"};
  const CrossSiteRules open = cross_site_rules(options, /*on_loopback=*/true);
  const CrossSiteRules elsewhere = cross_site_rules(options, /*on_loopback=*/false);
  for (const char* type :
       {"", "text/plain", "Text/Plain; charset=UTF-8", "application/x-www-form-urlencoded",
        "multipart/form-data; boundary=x", "text/plain;application/json", "application/jsonx"}) {
    EXPECT_EQ(status_of(open, post("https://any.example", type)), 415) << type;
    EXPECT_EQ(status_of(open, post("http://localhost:8000", type)), 415) << type;
    EXPECT_EQ(status_of(open, post({}, type)), 200) << type;  // curl -d
    EXPECT_EQ(status_of(elsewhere, post("https://any.example", type)), 200) << type;
  }
  for (const char* type : {"application/json", "Application/JSON; charset=utf-8",
                           "application/json ;a=b", "application/vnd.api+json"})
    EXPECT_EQ(status_of(open, post("https://any.example", type)), 200) << type;
}

std::string with_host(const std::string& host, const std::string& more = "",
                      const std::string& line = "GET /v1/models") {
  return line + " HTTP/1.1\r\nHost: " + host + "\r\n" + more + "\r\n";
}

TEST_F(HttpTest, AServerWithoutAKeyOnLoopbackRefusesForeignHosts) {
  start();
  HttpClient client(port());
  for (const char* path : {"/", "/health", "/metrics", "/v1/models", "/openapi.json", "/nothing"}) {
    SCOPED_TRACE(path);
    client.send(with_host("evil.example:8000", "", std::string("GET ") + path));
    const HttpResponse refused = client.read_response();
    EXPECT_EQ(refused.status, 403);
    EXPECT_EQ(error_of(refused)["code"], "foreign_host");
    EXPECT_THAT(std::string(error_of(refused)["message"]), testing::HasSubstr("--allowed-host"));
  }
  client.send(with_host("LOCALHOST.:1"));
  EXPECT_EQ(client.read_response().status, 200);
  client.send(with_host("localhost", "Host: localhost\r\n"));
  EXPECT_EQ(client.read_response().status, 400);
}

TEST_F(HttpTest, ServiceNamesAreGoodBehindAKey) {
  options_.api_keys = {"key"};
  start();
  HttpClient client(port());
  client.send(with_host("neuronmm.default.svc:8000", "Authorization: Bearer key\r\n"));
  EXPECT_EQ(client.read_response().status, 200);
}

TEST_F(HttpTest, PagesOfOtherSitesCannotPost) {
  start();
  HttpClient client(port());
  const std::string own = "Origin: http://localhost\r\n",
                    json = "Content-Type: application/json\r\n",
                    text = "Content-Type: text/plain\r\n", body = completion(1, false);
  EXPECT_EQ(client.post("/v1/completions", body).status, 200);
  EXPECT_EQ(client.post("/v1/completions", body, text).status, 200);
  EXPECT_EQ(client.post("/v1/completions", body, own + json).status, 200);
  for (const std::string& headers :
       {"Origin: https://evil.example\r\n" + text, "Origin: https://evil.example\r\n" + json,
        "Origin: null\r\n" + json, own + own + json}) {
    SCOPED_TRACE(headers);
    HttpClient page(port());
    const HttpResponse refused = page.post("/v1/completions", body, headers);
    EXPECT_EQ(refused.status, 403);
    EXPECT_EQ(error_of(refused)["code"], "foreign_origin");
  }
  EXPECT_EQ(HttpClient(port()).post("/v1/completions", body, own + text).status, 415);
  EXPECT_EQ(HttpClient(port()).post("/v1/completions", body, own).status, 415);
  HttpClient chunked(port());
  chunked.send(with_host("localhost", own + "Transfer-Encoding: chunked\r\n", "POST /tokenize"));
  EXPECT_EQ(chunked.read_response().status, 415);
  HttpClient preflight(port());
  preflight.send(with_host(
      "localhost", "Origin: https://evil.example\r\nAccess-Control-Request-Method: POST\r\n",
      "OPTIONS /v1/completions"));
  EXPECT_EQ(preflight.read_response().status, 403);
  expect_no_block_in_use();
}

}  // namespace
}  // namespace neuronmm::serve
