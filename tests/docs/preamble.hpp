// What the C++ blocks of the pages may use without saying so.
#pragma once

#include <skald/skald.hpp>

#include <pqxx/pqxx>

#include <cstdint>
#include <string>
