// Package budget holds tests only: the memory budget is never exceeded, a refusal names
// a number that is enough and least, and training keeps what it was promised.
package budget
