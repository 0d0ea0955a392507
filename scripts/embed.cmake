# A file as a C array: cmake -DIN=file -DOUT=file.c -DNAME=symbol -P embed.cmake
file(READ ${IN} hex HEX)
string(LENGTH "${hex}" n)
math(EXPR n "${n} / 2")
string(REGEX REPLACE "(................................)" "\\1\n" hex "${hex}")
string(REGEX REPLACE "([0-9a-f][0-9a-f])" "0x\\1," hex "${hex}")
file(WRITE ${OUT} "#include <stddef.h>\nextern const unsigned char ${NAME}[];\n"
     "extern const size_t ${NAME}_size;\nconst size_t ${NAME}_size = ${n};\n"
     "_Alignas(16) const unsigned char ${NAME}[] = {\n${hex}\n};\n")
