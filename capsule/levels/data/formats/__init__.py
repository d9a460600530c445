"""Datasets in the files in which others publish them, read with numpy alone.

Files are others': no size is believed that one claims of itself, and each fault ends by one error.

    files           what the formats have in common
    idx             MNIST and its like
    cifar           CIFAR-10 and CIFAR-100, binary version
    tokens          nanoGPT's files of tokens
    records         TFRecord with tf.train.Example, as CosmoFlow's; `checksums` guards them
    hdf5            HDF5, as DeepCAM's and CosmoFlow's
    pictures        PGM and PPM, and what Pillow reads
    sources         samples that are taken by their numbers
    layouts         which files of a folder make a dataset, by the name of its format
    writers         what generators make, in these files
"""
