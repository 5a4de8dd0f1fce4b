// Tests the certificate and key files of a server that speaks HTTPS.

#include <cstdio>
#include <filesystem>
#include <fstream>
#include <memory>

#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <openssl/evp.h>
#include <openssl/pem.h>
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
    X509_gmtime_adj(X509_getm_notBefore(certificate_.get()), 0);
    X509_gmtime_adj(X509_getm_notAfter(certificate_.get()), 3600);
    X509_set_pubkey(certificate_.get(), key_.get());
    X509_sign(certificate_.get(), key_.get(), EVP_sha256());
    const File file = open(options_.tls_certificate);
    EXPECT_EQ(PEM_write_X509(file.get(), certificate_.get()), 1);
  }
  ~TlsFiles() override { fs::remove_all(folder_); }

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
  const std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_{EVP_EC_gen("P-256"),
                                                                 EVP_PKEY_free};
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

TEST_F(TlsFiles, FileThatIsNoKeyIsRefusedWithItsPath) {
  std::ofstream(options_.tls_key) << "no PEM";
  const auto server = Server::start(options_);
  ASSERT_FALSE(server.ok());
  EXPECT_THAT(server.error().message, testing::HasSubstr(options_.tls_key + "\": no private key"));
}

}  // namespace
}  // namespace neuronmm::serve
