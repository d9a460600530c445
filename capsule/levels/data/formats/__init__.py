"""Datasets in the files in which others publish them, read with numpy alone.

files           what all have in common: no size is believed that a file claims of itself
idx             MNIST and its like
cifar           CIFAR-10 and CIFAR-100, binary version
tokens          nanoGPT's files of tokens
records         TFRecord with tf.train.Example, as CosmoFlow's; `checksums` guards them
hdf5            HDF5, as DeepCAM's
"""
