// Package workspace is what every stage of a build works with: context, memory, scratch,
// the device queue, progress, notes, and the settings by which tests make small inputs
// take the ways of large ones.
package workspace
