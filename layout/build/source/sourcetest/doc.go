// Package sourcetest makes inputs for the tests of the readers, by hand rather than by
// the code under test, and reads everything out of a source, holding it to the rules of
// package source on the way. Only tests import it.
package sourcetest
