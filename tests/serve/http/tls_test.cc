// Tests a server that speaks HTTPS: its certificate and key files, and what it accepts of TLS.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/bio.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/rsa.h>
#include <openssl/ssl.h>
#include <openssl/x509.h>
#include <unistd.h>

#include "serve/http/http_client.h"
#include "serve/http/server.h"

namespace neuronmm::serve {
namespace {

namespace fs = std::filesystem;

class TlsFiles : public testing::Test {
 protected:
  TlsFiles() {
    fs::create_directories(folder_);
    options_.port = 0;
    options_.tls_certificate = folder_ / "chain.pem";
    options_.tls_key = folder_ / "key.pem";
    write_certificate();
  }
  ~TlsFiles() override { fs::remove_all(folder_); }

  void use_rsa_key() {
    key_.reset(EVP_RSA_gen(2048));
    write_certificate();
  }

  // Writes a certificate that the key has signed itself.
  void write_certificate() {
    X509_gmtime_adj(X509_getm_notBefore(certificate_.get()), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate_.get()), 3600);
    X509_set_pubkey(certificate_.get(), key_.get());
    X509_sign(certificate_.get(), key_.get(), EVP_sha256());
    const File file = open(options_.tls_certificate);
    EXPECT_EQ(PEM_write_X509(file.get(), certificate_.get()), 1);
  }

  // Writes the key, encrypted if there is a passphrase.
  void write_key(const char* passphrase) {
    const File file = open(options_.tls_key);
    const EVP_CIPHER* cipher = passphrase == nullptr ? nullptr : EVP_aes_256_cbc();
    EXPECT_EQ(PEM_write_PKCS8PrivateKey(file.get(), key_.get(), cipher, passphrase,
                                        passphrase == nullptr ? 0 : 4, nullptr, nullptr),
              1);
  }

  ServerOptions options_;

 private:
  using File = std::unique_ptr<std::FILE, int (*)(std::FILE*)>;
  static File open(const std::string& path) { return {std::fopen(path.c_str(), "w"), std::fclose}; }

  const fs::path folder_ =
      fs::path(testing::TempDir()) / ("neuronmm-tls-" + std::to_string(getpid()));
  std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_{EVP_EC_gen("P-256"), EVP_PKEY_free};
  const std::unique_ptr<X509, decltype(&X509_free)> certificate_{X509_new(), X509_free};
};

TEST_F(TlsFiles, ValidFilesStartAnHttpsServer) {
  write_key(nullptr);
  const auto server = Server::start(options_);
  ASSERT_TRUE(server.ok()) << server.error().message;
  EXPECT_THAT((*server)->url(), testing::StartsWith("https://"));
}

TEST_F(TlsFiles, HandshakesThatAreNeverFinishedEndInTime) {
  write_key(nullptr);
  options_.limits.header = std::chrono::milliseconds(50);
  options_.limits.tick = std::chrono::milliseconds(5);
  const auto server = Server::start(options_);
  ASSERT_TRUE(server.ok()) << server.error().message;
  HttpClient silent((*server)->port()), half((*server)->port());
  half.send(std::string("\x16\x03\x01\x02\x00\x01", 6));  // the beginning of a ClientHello
  EXPECT_TRUE(silent.closed_by_server());
  EXPECT_TRUE(half.closed_by_server());
}

// The server must not ask for a passphrase, because a service has no terminal.
TEST_F(TlsFiles, EncryptedKeyIsRefusedWithItsPath) {
  write_key("word");
  const auto server = Server::start(options_);
  ASSERT_FALSE(server.ok());
  for (const char* part : {options_.tls_key.c_str(), "encrypted", "openssl pkey -in"})
    EXPECT_THAT(server.error().message, testing::HasSubstr(part));
}

// Returns the suite on which a client and the server agree, or an empty text if they do not.
// `version` is the only one that the client offers.
std::string agreed_suite(int port, int version, const char* suites) {
  const std::unique_ptr<SSL_CTX, decltype(&SSL_CTX_free)> context{SSL_CTX_new(TLS_client_method()),
                                                                  SSL_CTX_free};
  SSL_CTX_set_security_level(context.get(), 0);  // the client refuses nothing itself
  SSL_CTX_set_min_proto_version(context.get(), version);
  SSL_CTX_set_max_proto_version(context.get(), version);
  if (version < TLS1_3_VERSION) {
    EXPECT_EQ(SSL_CTX_set_cipher_list(context.get(), suites), 1) << suites;
  }
  const std::unique_ptr<BIO, decltype(&BIO_free_all)> connection{BIO_new_ssl_connect(context.get()),
                                                                 BIO_free_all};
  BIO_set_conn_hostname(connection.get(), ("127.0.0.1:" + std::to_string(port)).c_str());
  if (BIO_do_handshake(connection.get()) != 1) return "";
  SSL* ssl = nullptr;
  BIO_get_ssl(connection.get(), &ssl);
  return SSL_get_cipher_name(ssl);
}

TEST_F(TlsFiles, OnlySuitesWithForwardSecrecyAreAccepted) {
  write_key(nullptr);
  auto started = Server::start(options_);
  ASSERT_TRUE(started.ok()) << started.error().message;
  const int port = (*started)->port();
  EXPECT_THAT(agreed_suite(port, TLS1_3_VERSION, ""), testing::StartsWith("TLS_"));
  for (const char* suite : {"ECDHE-ECDSA-AES128-GCM-SHA256", "ECDHE-ECDSA-AES256-GCM-SHA384",
                            "ECDHE-ECDSA-CHACHA20-POLY1305"})
    EXPECT_EQ(agreed_suite(port, TLS1_2_VERSION, suite), suite);
  // These have no authenticated encryption.
  for (const char* suite : {"ECDHE-ECDSA-AES128-SHA256", "ECDHE-ECDSA-AES256-SHA"})
    EXPECT_EQ(agreed_suite(port, TLS1_2_VERSION, suite), "");
  for (const int version : {TLS1_VERSION, TLS1_1_VERSION})
    EXPECT_EQ(agreed_suite(port, version, "ALL:@SECLEVEL=0"), "");
}

// The suites of RSA keys without forward secrecy are those that were used most.
TEST_F(TlsFiles, RsaKeysGiveNoSuiteWithoutForwardSecrecy) {
  use_rsa_key();
  write_key(nullptr);
  auto started = Server::start(options_);
  ASSERT_TRUE(started.ok()) << started.error().message;
  const int port = (*started)->port();
  EXPECT_EQ(agreed_suite(port, TLS1_2_VERSION, "ECDHE-RSA-AES128-GCM-SHA256"),
            "ECDHE-RSA-AES128-GCM-SHA256");
  for (const char* suite :
       {"AES128-GCM-SHA256", "AES256-GCM-SHA384", "AES128-SHA", "AES256-SHA256"})
    EXPECT_EQ(agreed_suite(port, TLS1_2_VERSION, suite), "");
}

TEST_F(TlsFiles, MissingAndEmptyFilesAreRefusedWithTheirPath) {
  const std::string key = options_.tls_key;
  for (const bool exists : {false, true}) {
    if (exists) std::ofstream(key).flush();
    const auto server = Server::start(options_);
    ASSERT_FALSE(server.ok());
    EXPECT_THAT(server.error().message, testing::HasSubstr(key));
  }
  write_key(nullptr);
  for (std::string ServerOptions::*file :
       {&ServerOptions::tls_certificate, &ServerOptions::tls_key}) {
    ServerOptions without = options_;
    without.*file = "";
    const auto server = Server::start(without);
    ASSERT_FALSE(server.ok());
    EXPECT_THAT(server.error().message, testing::HasSubstr("TLS"));
  }
}

TEST_F(TlsFiles, FileThatIsNoKeyIsRefusedWithItsPath) {
  std::ofstream(options_.tls_key) << "no PEM";
  const auto server = Server::start(options_);
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(server.error().message, testing::HasSubstr(options_.tls_key + "\": no private key"));
}

}  // namespace
}  // namespace neuronmm::serve
