# Turns a text file into a C array: cmake -DIN=prelude.fk -DOUT=prelude.c -P embed.cmake
file(READ ${IN} hex HEX)
string(REGEX REPLACE "(..)" "0x\\1," bytes "${hex}")
string(REGEX REPLACE "((0x..,){16})" "\\1\n    " bytes "${bytes}")
file(WRITE ${OUT} "/* made from prelude.fk by embed.cmake */
#include \"frontend/frontend.h\"

const char frontend_prelude[] = {
    ${bytes}0x00};
const size_t frontend_prelude_len = sizeof frontend_prelude - 1;
")
