// Package accuracy holds tests only: models trained through a store reach the published
// test accuracy.
package accuracy
