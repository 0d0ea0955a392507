/* test.h - what every cmocka file includes first. */
#ifndef FK_TEST_H
#define FK_TEST_H

#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <cmocka.h>

#endif
