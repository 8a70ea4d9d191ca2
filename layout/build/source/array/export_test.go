package array

// WindowSize is the size of a window over an array in Fortran order.
const WindowSize = windowBytes
