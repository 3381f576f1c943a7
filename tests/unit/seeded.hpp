// Random cases that are the same in every run, so that a failure can be had again: the case itself is in the message.
#pragma once

#include <cstddef>
#include <random>
#include <string>
#include <string_view>

namespace skald::test {

/// How many cases a property is tried with: fewer where a sanitizer makes each take twenty times as long.
constexpr int cases(int many)
{
#if defined(__SANITIZE_THREAD__) || defined(__SANITIZE_ADDRESS__)
    return many / 10;
#else
    return many;
#endif
}

class seeded
{
public:
    explicit seeded(std::uint_fast32_t seed) : random_{seed} {}

    std::size_t number(std::size_t least, std::size_t most)
    {
        return std::uniform_int_distribution<std::size_t>{least, most}(random_);
    }

    bool coin() { return number(0, 1) == 1; }

    /// Of `least` to `most` characters out of `alphabet`.
    std::string text(std::string_view alphabet, std::size_t least, std::size_t most)
    {
        std::string made(number(least, most), '\0');
        for (char& c : made) c = alphabet[number(0, alphabet.size() - 1)];
        return made;
    }

    /// Of any bytes.
    std::string bytes(std::size_t least, std::size_t most)
    {
        std::string made(number(least, most), '\0');
        for (char& c : made) c = static_cast<char>(number(0, 255));
        return made;
    }

    std::string name()
    {
        return text("abcdefghijklmnopqrstuvwxyz", 1, 1) + text("abcdefghijklmnopqrstuvwxyz0123456789-", 0, 47);
    }

private:
    std::mt19937 random_;
};

}  // namespace skald::test
