// The files of TLS: what is accepted, and what is said about what is not.
#include <doctest/doctest.h>

#include <string>

#include "http/certificate.hpp"
#include "support/certificates.hpp"
#include "support/complaint.hpp"

#include <openssl/ssl.h>
#include <skald/errors.hpp>
#include <sys/stat.h>

using namespace skald;
using namespace skald::http;
using test::certificate_folder;
using test::contains;
using test::issue;
using test::key_pem;
using test::pem;

namespace {

/// What is said against these files; empty where nothing is.
std::string complaint(tls_files const& files)
{
    return test::complaint_about([&] { load_certificate(files); });
}

}  // namespace

TEST_CASE("a certificate with its chain is loaded, and both may be in one file with the key")
{
    certificate_folder const folder;
    auto const context = load_certificate({folder.chain(), folder.key()});
    STACK_OF(X509)* chain = nullptr;
    SSL_CTX_get0_chain_certs(context.get(), &chain);
    CHECK(sk_X509_num(chain) == 1);

    auto const made = issue("shop");
    auto const one = folder.write("one.pem", key_pem(made) + pem(made));
    CHECK(complaint({one, one}) == "");
}

TEST_CASE("files that can't be used are errors that name the setting, the file and what is wrong")
{
    certificate_folder const folder;
    auto const missing = folder.path("missing.pem");
    auto const empty = folder.write("empty.pem", "");
    auto const text = folder.write("text.pem", "no certificate\n");
    auto const made = issue("shop");
    auto const cut = folder.write("cut.pem", pem(made).substr(0, 200));
    auto const damaged = folder.write("damaged.pem", pem(made) + pem(made).substr(0, 200));
    auto const other = folder.write("other.pem", key_pem(made));
    auto const encrypted = folder.write("encrypted.pem", key_pem(made, "secret"));
    auto const pipe = folder.path("pipe.pem");
    REQUIRE(::mkfifo(pipe.c_str(), 0600) == 0);  // nobody ever writes to it
    auto const large = folder.write("large.pem", std::string(1024 * 1024 + 1, ' '));
    auto const wrong_order = folder.write("order.pem", pem(issue("middle")) + pem(made));

    struct
    {
        tls_files files;
        std::string says;
    } const table[]{
        {{missing, folder.key()}, "SKALD_HTTP_TLS_CERTIFICATE (" + missing + ") can't be read: No such file"},
        {{folder.path(""), folder.key()},
         "SKALD_HTTP_TLS_CERTIFICATE (" + folder.path("") + ") can't be read: it is a folder"},
        {{pipe, folder.key()}, "SKALD_HTTP_TLS_CERTIFICATE (" + pipe + ") can't be read: it is a pipe or a device"},
        {{large, folder.key()}, "SKALD_HTTP_TLS_CERTIFICATE (" + large + ") can't be read: it has more than 1 MiB"},
        {{empty, folder.key()}, "SKALD_HTTP_TLS_CERTIFICATE (" + empty + ") holds no certificate in PEM"},
        {{text, folder.key()}, "SKALD_HTTP_TLS_CERTIFICATE (" + text + ") holds no certificate in PEM"},
        {{cut, folder.key()}, "SKALD_HTTP_TLS_CERTIFICATE (" + cut + ") holds no certificate in PEM"},
        {{folder.key(), folder.key()}, "SKALD_HTTP_TLS_CERTIFICATE (" + folder.key() + ") holds no certificate in PEM"},
        {{damaged, other}, "SKALD_HTTP_TLS_CERTIFICATE (" + damaged + ") holds a damaged certificate behind the first"},
        {{folder.chain(), missing}, "SKALD_HTTP_TLS_KEY (" + missing + ") can't be read: No such file"},
        {{folder.chain(), folder.path("")},
         "SKALD_HTTP_TLS_KEY (" + folder.path("") + ") can't be read: it is a folder"},
        {{folder.chain(), empty}, "SKALD_HTTP_TLS_KEY (" + empty + ") holds no private key in PEM"},
        {{folder.chain(), folder.chain()}, "SKALD_HTTP_TLS_KEY (" + folder.chain() + ") holds no private key in PEM"},
        {{folder.chain(), other},
         "SKALD_HTTP_TLS_KEY (" + other +
             ") is not the key of the first certificate in "
             "SKALD_HTTP_TLS_CERTIFICATE (" +
             folder.chain() + ")"},
        {{wrong_order, other}, "SKALD_HTTP_TLS_KEY (" + other + ") is not the key of the first certificate"},
        {{folder.chain(), encrypted},
         "SKALD_HTTP_TLS_KEY (" + encrypted + ") is encrypted: decrypt it with `openssl pkey`"},
    };
    for (auto const& row : table) {
        CAPTURE(row.says);
        CHECK(complaint(row.files).starts_with(row.says));
    }
}

TEST_CASE("a key of another kind than the certificate's is not its key")
{
    certificate_folder const folder;
    test::identity rsa{test::test_key{EVP_RSA_gen(2048)}, nullptr};
    auto const file = folder.write("rsa.pem", key_pem(rsa));
    CHECK(contains(complaint({folder.chain(), file}), "is not the key of the first certificate"));
}

TEST_CASE("a certificate says when it ends, and whether it has")
{
    certificate_folder folder;
    auto const valid = load_certificate({folder.chain(), folder.key()});
    CHECK_FALSE(has_expired(*valid));
    auto const end = end_of_certificate(*valid);
    CHECK(end.size() == std::string{"2026-01-31T12:00:00Z"}.size());
    CHECK(end.ends_with('Z'));

    folder.renew("ended", -1);
    auto const ended = load_certificate({folder.chain(), folder.key()});
    CHECK(has_expired(*ended));
    CHECK(end_of_certificate(*ended) < end);
}

TEST_CASE("a file's stamp differs when it was written, replaced or removed, and only then")
{
    certificate_folder folder;
    auto const first = stamp_of(folder.key());
    CHECK(stamp_of(folder.key()) == first);
    auto const text = key_pem(issue("other"));
    folder.write("key.pem", text);
    auto const replaced = stamp_of(folder.key());
    CHECK(replaced != first);
    std::ofstream{folder.key(), std::ios::app} << "\n";
    CHECK(stamp_of(folder.key()) != replaced);
    std::filesystem::remove(folder.key());
    CHECK(stamp_of(folder.key()) == file_stamp{});
}

TEST_CASE("a key that everybody may read is told from one that a group may")
{
    certificate_folder const folder;
    for (auto const& [mode, is_exposed] : {std::pair{0600, false}, {0640, false}, {0644, true}, {0444, true}}) {
        auto const file = folder.write("some.pem", "x", mode);
        CHECK(is_readable_by_all(file) == is_exposed);
    }
}
