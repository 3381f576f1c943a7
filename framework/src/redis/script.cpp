#include "redis/script.hpp"

#include "core/text.hpp"
#include "skald_redis_scripts.hpp"

#include <array>

#include <openssl/evp.h>

namespace skald::redis_detail {
namespace {

// As Redis names it: no more than a name, so SHA-1 will do.
std::string sha1_of(std::string_view text)
{
    std::array<unsigned char, EVP_MAX_MD_SIZE> digest{};
    unsigned int size = 0;
    if (EVP_Digest(text.data(), text.size(), digest.data(), &size, EVP_sha1(), nullptr) != 1)
        throw std::runtime_error{"OpenSSL refuses SHA-1, by which Redis names scripts"};
    return core::to_hex({reinterpret_cast<char const*>(digest.data()), size});
}

}  // namespace

script::script(std::string_view text) : text_{text}, hash_{sha1_of(text)} {}

words script::call(std::string command, std::string const& what, words const& keys, words const& arguments)
{
    words all{std::move(command), what, std::to_string(keys.size())};
    all.insert(all.end(), keys.begin(), keys.end());
    all.insert(all.end(), arguments.begin(), arguments.end());
    return all;
}

reply script::run(link& on, words const& keys, words const& arguments, link::clock::time_point until) const
{
    auto answer = on.ask(by_hash(keys, arguments), until);
    if (is_unknown(answer)) answer = on.ask(by_text(keys, arguments), until);
    return answer;
}

script const& acquire_script()
{
    static script const one{redis_scripts::acquire};
    return one;
}

script const& keep_script()
{
    static script const one{redis_scripts::keep};
    return one;
}

script const& release_script()
{
    static script const one{redis_scripts::release};
    return one;
}

script const& extend_script()
{
    static script const one{redis_scripts::extend};
    return one;
}

}  // namespace skald::redis_detail
