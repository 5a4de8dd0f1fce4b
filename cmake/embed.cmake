# Writes a C++ file with a function that returns the bytes of the input file as a std::string_view.
# The server's web page and its OpenAPI template get into the program in this way.
#
#   cmake -D INPUT=file -D OUTPUT=file.cc -D HEADER=... -D NAMESPACE=... -D FUNCTION=... -P embed.cmake
#
# HEADER is the header that declares the function.

file(READ ${INPUT} bytes HEX)
string(LENGTH "${bytes}" digits)
math(EXPR size "${digits} / 2")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," bytes "${bytes}")
string(REGEX REPLACE "(0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,0x..,)" "\\1\n"
                     bytes "${bytes}")
file(WRITE ${OUTPUT} "#include \"${HEADER}\"

namespace ${NAMESPACE} {
namespace {
constexpr unsigned char kBytes[] = {
${bytes}0};
}  // namespace

std::string_view ${FUNCTION}() { return {reinterpret_cast<const char*>(kBytes), ${size}}; }

}  // namespace ${NAMESPACE}
")
