// PTX text as tokens, with lines.
#ifndef RUNTIME_EMU_LEX_INT_H
#define RUNTIME_EMU_LEX_INT_H

#include "runtime/emu/base_int.h"

// A word is an opcode with its modifiers, a name, a directive: letters, digits, _ $ % . and "::".
typedef enum EmuTokenKind {
    TOKEN_END,
    TOKEN_WORD,
    TOKEN_NUMBER,
    TOKEN_STRING,
    TOKEN_SIGN
} EmuTokenKind;

typedef struct EmuToken {
    EmuTokenKind kind;
    const char *at;
    uint32_t n, line;
    uint64_t value; // of a number: the integer, or the bits of a float
    uint8_t bits;   // of a number: 0 an integer, 32 0f.., 64 0d..
} EmuToken;

typedef struct EmuLexer {
    EmuArena *arena;
    const char *at;
    uint32_t line;
    EmuToken token; // the one in front
} EmuLexer;

void emu_lex(EmuLexer *l, EmuArena *arena, const char *text); // sets the first token
void emu_next(EmuLexer *l);
bool emu_is(const EmuLexer *l, const char *text);   // the token in front is this
bool emu_take(EmuLexer *l, const char *text);       // and goes on if it is
void emu_expect(EmuLexer *l, const char *text);     // or fails
EmuToken emu_word(EmuLexer *l, const char *what);   // takes a word
int64_t emu_integer(EmuLexer *l, const char *what); // takes an integer, with its sign

#endif
